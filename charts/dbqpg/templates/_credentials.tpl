{{/*
The credentials directory of a member (docs/security.md) as a volume. Each role has a Secret of its own, and so has the authority,
which no pod mounts. With cert-manager the certificates are in further Secrets.
*/}}

{{- define "dbqpg.secretPrefix" -}}
{{- .Values.credentials.secretPrefix | default (printf "%s-credentials" (include "dbqpg.name" .)) }}
{{- end }}

{{/* Sources of a projected volume: (list $ "actor") */}}
{{- define "dbqpg.credentialSources" -}}
{{- $root := first . }}
{{- $member := last . }}
{{- $certificates := list (list "ca.pem" "ca.crt") (list "tls.pem" "tls.crt") (list "tls-key.pem" "tls.key") }}
{{- $others := get (dict "nats" (list "accounts.conf") "coordinator" (list "nats.nk" "revoked.json")) $member | default (list "nats.nk") }}
{{- $issued := eq $root.Values.credentials.mode "cert-manager" -}}
- secret:
    name: {{ include "dbqpg.secretPrefix" $root }}-{{ $member }}
    items:
      {{- range $others }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- if $issued }}
- secret:
    name: {{ include "dbqpg.name" $root }}-{{ $member }}-tls
    items:
{{- end }}
      {{- range $certificates }}
      - {key: {{ ternary (last .) (first .) $issued }}, path: {{ first . }}}
      {{- end }}
{{- end }}

{{- define "dbqpg.credentialVolume" -}}
- name: credentials
  projected:
    defaultMode: 0440
    sources: {{- include "dbqpg.credentialSources" . | nindent 6 }}
{{- end }}

{{- define "dbqpg.credentialMount" -}}
- {name: credentials, mountPath: /etc/dbqpg/credentials, readOnly: true}
{{- end }}

{{/* Host names of the servers, as JSON. */}}
{{- define "dbqpg.hosts" -}}
{{- $hosts := list }}
{{- range $service := list (printf "%s-coordinator" (include "dbqpg.name" .)) (include "dbqpg.nats" .) }}
{{- $hosts = append $hosts (printf "%s.%s.svc" $service $.Release.Namespace) }}
{{- $hosts = append $hosts (printf "*.%s-headless.%s.svc" $service $.Release.Namespace) }}
{{- end }}
{{- if .Values.natschart.enabled }}{{ $hosts = append $hosts (printf "*.%s-headless" (include "dbqpg.nats" .)) }}{{ end }}
{{- with .Values.dashboard.ingress.host }}{{ $hosts = append $hosts . }}{{ end }}
{{- toJson (concat $hosts .Values.credentials.hosts) }}
{{- end }}
