{{/*
The credentials directory of a member (docs/security.md) as a volume. The Secret holds the files of all members under
MEMBER.FILE; a pod mounts only those of its own member. With cert-manager each certificate is in a Secret of its own.
*/}}

{{- define "dbqpg.secret" -}}
{{- .Values.credentials.secret | default (printf "%s-credentials" (include "dbqpg.name" .)) }}
{{- end }}

{{/* File names of a member's credentials, separated by spaces. */}}
{{- define "dbqpg.files" -}}
{{- if eq . "nats" }}ca.pem tls.pem tls-key.pem accounts.conf
{{- else }}ca.pem tls.pem tls-key.pem nats.nk{{ end }}
{{- end }}

{{/* Sources of a projected volume: (list $ "actor") */}}
{{- define "dbqpg.credentialSources" -}}
{{- $root := first . -}}
{{- $member := last . -}}
{{- $fromIssuer := eq $root.Values.credentials.mode "cert-manager" -}}
- secret:
    name: {{ include "dbqpg.secret" $root }}
    items:
      {{- range splitList " " (include "dbqpg.files" $member) }}
      {{- if not (and $fromIssuer (hasSuffix ".pem" .)) }}
      - {key: {{ $member }}.{{ . }}, path: {{ . }}}
      {{- end }}
      {{- end }}
{{- if $fromIssuer }}
- secret:
    name: {{ include "dbqpg.name" $root }}-{{ $member }}-tls
    items:
      - {key: ca.crt, path: ca.pem}
      - {key: tls.crt, path: tls.pem}
      - {key: tls.key, path: tls-key.pem}
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
{{- range list "coordinator" "nats" }}
{{- $service := printf "%s-%s" (include "dbqpg.name" $) . }}
{{- $hosts = append $hosts (printf "%s.%s.svc" $service $.Release.Namespace) }}
{{- $hosts = append $hosts (printf "*.%s-headless.%s.svc" $service $.Release.Namespace) }}
{{- end }}
{{- toJson (concat $hosts .Values.credentials.hosts) }}
{{- end }}
