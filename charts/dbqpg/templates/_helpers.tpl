{{/* Names, labels and the fields that all pods share. */}}

{{- define "dbqpg.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Selector labels of the pods of a component: (list $ "learner") */}}
{{- define "dbqpg.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: dbqpg
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{- define "dbqpg.labels" -}}
{{- $root := first . -}}
{{ include "dbqpg.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* Name of one of the project's images: (list $ "learner" "-cpu") */}}
{{- define "dbqpg.image" -}}
{{- $root := first . -}}
{{ printf "%s/%s:%s%s" $root.Values.images.registry (index . 1) ($root.Values.images.tag | default $root.Chart.AppVersion) (index . 2) }}
{{- end }}

{{/* Pod fields required by Pod Security "restricted". The group lets the process read its private keys. */}}
{{- define "dbqpg.pod" -}}
serviceAccountName: {{ include "dbqpg.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{ include "dbqpg.podSecurity" . }}
{{- end }}

{{- define "dbqpg.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Container fields required by Pod Security "restricted". */}}
{{- define "dbqpg.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Placement of pods: (list $ .Values.learner) */}}
{{- define "dbqpg.placement" -}}
{{- $where := index . 1 }}
{{- with $where.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $where.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $where.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dbqpg.spread" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "dbqpg.selector" . | nindent 14 }}
{{- end }}

{{/* Environment variable with the name of the pod. */}}
{{- define "dbqpg.podName" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}

{{- define "dbqpg.tracing" -}}
{{- with .Values.tracing.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Liveness and readiness probes, on the metrics port. */}}
{{- define "dbqpg.liveness" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  failureThreshold: 6
{{- end }}

{{- define "dbqpg.readiness" -}}
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
{{- end }}

{{- define "dbqpg.coordinatorURL" -}}
https://{{ include "dbqpg.name" . }}-coordinator.{{ .Release.Namespace }}.svc:7070
{{- end }}

{{- define "dbqpg.natsURL" -}}
{{- .Values.nats.external | default (printf "tls://%s-nats.%s.svc:4222" (include "dbqpg.name" .) .Release.Namespace) }}
{{- end }}
