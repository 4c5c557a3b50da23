{{/*
The credentials directory of a member (docs/security.md) as a volume. Each role has a Secret of its own, and so has the authority,
which no pod mounts.
*/}}

{{- define "dbqpg.secretPrefix" -}}
{{- .Values.credentials.secretPrefix | default (printf "%s-credentials" (include "dbqpg.name" .)) }}
{{- end }}

{{/* Sources of a projected volume: (list $ "actor") */}}
{{- define "dbqpg.credentialSources" -}}
{{- $root := first . }}
{{- $member := last . }}
{{- $issued := eq $root.Values.credentials.mode "cert-manager" -}}
- secret:
    name: {{ if $issued }}{{ include "dbqpg.name" $root }}-{{ $member }}-tls{{ else }}{{ include "dbqpg.secretPrefix" $root }}-{{ $member }}{{ end }}
    items:
      {{- range list (list "ca.pem" "ca.crt") (list "tls.pem" "tls.crt") (list "tls-key.pem" "tls.key") }}
      - {key: {{ ternary (last .) (first .) $issued }}, path: {{ first . }}}
      {{- end }}
      {{- $lists := dict "nats" "accounts.conf" "coordinator" "revoked.json" }}
      {{- if $root.Values.run.env }}{{ $_ := set $lists "learner" "accounts.conf" }}{{ end }}
      {{- with get (ternary dict $lists $issued) $member }}
      - {key: {{ . }}, path: {{ . }}}
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

{{/* Host names of a role's own servers, as JSON: (list $ "nats") */}}
{{- define "dbqpg.hosts" -}}
{{- $root := first . }}
{{- $hosts := list }}
{{- if has (last .) (ternary (list "coordinator" "nats") (list "learner") (eq $root.Values.run.env "")) }}
{{- $name := printf "%s-%s" (include "dbqpg.name" $root) (last .) }}
{{- $hosts = list (printf "%s.%s.svc" $name $root.Release.Namespace) (printf "*.%s-headless.%s.svc" $name $root.Release.Namespace) }}
{{- end }}
{{- with $root.Values.dashboard.ingress.host }}{{ if eq (last $) "coordinator" }}{{ $hosts = append $hosts . }}{{ end }}{{ end }}
{{- toJson $hosts }}
{{- end }}
