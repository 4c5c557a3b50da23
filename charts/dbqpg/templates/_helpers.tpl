{{/* Names, labels, and the one template of all pods. */}}

{{- define "dbqpg.name" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name }}
{{- $name := printf "%s-%s" .Release.Name $chart }}
{{- if contains $chart .Release.Name }}{{ $name = .Release.Name }}{{ end }}
{{- $name = .Values.fullnameOverride | default $name | trunc 40 | trimSuffix "-" }}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $name) }}
{{- fail (printf "fullnameOverride: names of Services begin with %q: give one of letters, digits and -, beginning with a letter" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "dbqpg.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "dbqpg.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* Selector labels of the pods of a component: (list $ "learner") */}}
{{- define "dbqpg.selector" -}}
app.kubernetes.io/name: dbqpg
app.kubernetes.io/instance: {{ (first .).Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{/* Labels of an object: (list $ "learner" FURTHER...). Those of pods are without the versions, so that a new chart restarts nothing. */}}
{{- define "dbqpg.labels" -}}
{{- $root := first . -}}
{{ include "dbqpg.selector" (slice . 0 2) }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- include "dbqpg.lines" (concat (list $root.Values.commonLabels) (slice . 2)) }}
{{- end }}

{{/* The entries of maps, each on a line; later maps take precedence. */}}
{{- define "dbqpg.lines" }}
{{- $all := dict }}
{{- range . }}{{ include "dbqpg.overlay" (list $all (. | default dict)) }}{{ end }}
{{- with $all }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Metadata of a Deployment or StatefulSet, besides its name: (list $ "learner" SETTINGS) */}}
{{- define "dbqpg.workload" -}}
{{- $settings := last . -}}
labels: {{- include "dbqpg.labels" (list (first .) (index . 1) $settings.labels) | nindent 2 }}
{{- with $settings.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Puts the values of one map into another, maps into maps: (list INTO FROM). Unlike merge, it takes 0, false and "" as given. */}}
{{- define "dbqpg.overlay" -}}
{{- $into := first . }}
{{- range $key, $value := last . }}
{{- if and (kindIs "map" $value) (kindIs "map" (get $into $key)) }}{{ include "dbqpg.overlay" (list (get $into $key) $value) }}
{{- else if kindIs "map" $value }}{{ $_ := set $into $key (deepCopy $value) }}
{{- else }}{{ $_ := set $into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* Name of an image: (list $ IMAGE SUFFIX). A digest takes the place of the tag. */}}
{{- define "dbqpg.image" -}}
{{- $root := first . }}
{{- $image := index . 1 }}
{{- $name := printf "%s/%s" ($root.Values.global.imageRegistry | default $image.registry) $image.repository | trimPrefix "/" }}
{{- if $image.digest }}{{ $name }}@{{ $image.digest }}
{{- else }}{{ $name }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ last . }}
{{- end }}
{{- end }}

{{/*
The pods of a component, from a dict of
  root        the chart's context
  component   coordinator, nats, learner, actor, client or credentials: their label
  settings    .Values.common with the component's values over it
  part        the templates with the main container's fields (dbqpg.PART.container), environment (.env), mounts, volumes and, optional,
              sidecars
and optionally labels, annotations, serviceAccount, restartPolicy and imageSuffix.
*/}}
{{- define "dbqpg.podTemplate" -}}
{{- $root := .root }}
{{- $settings := .settings -}}
metadata:
  labels: {{- include "dbqpg.selector" (list $root .component) | nindent 4 }}
    {{- with include "dbqpg.lines" (list $root.Values.commonLabels $settings.podLabels .labels) }}
    {{- trim . | nindent 4 }}
    {{- end }}
  {{- with include "dbqpg.lines" (list $settings.podAnnotations .annotations) }}
  annotations: {{- trim . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ .serviceAccount | default (include "dbqpg.serviceAccount" $root) }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $settings.podSecurityContext }}
  securityContext: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "schedulerName" "priorityClassName" "runtimeClassName" "terminationGracePeriodSeconds" "shareProcessNamespace" }}
  {{- with get $settings $field }}
  {{- dict $field . | toYaml | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- with $settings.initContainers }}
  initContainers: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .part }}
      image: {{ include "dbqpg.image" (list $root $settings.image (.imageSuffix | default "")) }}
      imagePullPolicy: {{ $settings.image.pullPolicy }}
      {{- with $settings.securityContext }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- include (printf "dbqpg.%s.container" .part) . | trim | nindent 6 }}
        {{- range $settings.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      {{- $env := include (printf "dbqpg.%s.env" .part) . | trim }}
      {{- if or $env $settings.extraEnv }}
      env:
        {{- with $env }}
        {{- nindent 8 . }}
        {{- end }}
        {{- with $settings.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with $settings.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      resources: {{- toYaml $settings.resources | nindent 8 }}
      volumeMounts:
        {{- include (printf "dbqpg.%s.mounts" .part) . | trim | nindent 8 }}
        {{- with $settings.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .sidecars }}
    {{- include . $ | trim | nindent 4 }}
    {{- end }}
    {{- with $settings.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include (printf "dbqpg.%s.volumes" .part) . | trim | nindent 4 }}
    {{- with $settings.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Affinity that prefers different nodes: (list $ "nats") */}}
{{- define "dbqpg.spread" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "dbqpg.selector" . | nindent 12 }}
{{- end }}

{{/* Environment of the project's programs. */}}
{{- define "dbqpg.environment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- with .Values.tracing.endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
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

{{/* Whether the chart's own NATS servers are installed. */}}
{{- define "dbqpg.ownNATS" -}}
{{- not (or .Values.nats.external .Values.run.env) }}
{{- end }}

{{/* The components that have metrics, as JSON. */}}
{{- define "dbqpg.measured" -}}
{{- $components := list "learner" "actor" }}
{{- if not .Values.run.env }}{{ $components = prepend $components "coordinator" }}{{ end }}
{{- if and .Values.nats.exporter.enabled (eq (include "dbqpg.ownNATS" .) "true") }}{{ $components = append $components "nats" }}{{ end }}
{{- toJson $components }}
{{- end }}

{{- define "dbqpg.natsURL" -}}
{{- .Values.nats.external | default (printf "tls://%s-%s.%s.svc:4222" (include "dbqpg.name" .) (ternary "learner" "nats" (ne .Values.run.env "")) .Release.Namespace) }}
{{- end }}

{{/* A series' selector of this release: (list $ "learner") */}}
{{- define "dbqpg.series" -}}
{{- $root := first . }}
{{- $component := last . }}
{{- $own := get $root.Values.keda.selectors $component | replace (upper $component) (printf "%s-%s" (include "dbqpg.name" $root) $component) }}
{{- printf "{namespace=%q,%s}" $root.Release.Namespace $own | replace ",}" "}" }}
{{- end }}

{{/* Environment for a bucket of checkpoints: (list $ SECRET) */}}
{{- define "dbqpg.bucket" }}
{{- $secret := last . }}
{{- with first . }}
{{- if eq .Values.checkpoints.store "s3" }}
{{- with .Values.checkpoints.s3.endpoint }}
- {name: AWS_ENDPOINT_URL_S3, value: {{ . | quote }}}
{{- end }}
{{- with .Values.checkpoints.s3.region }}
- {name: AWS_REGION, value: {{ . | quote }}}
{{- end }}
{{- if $secret }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ $key }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ $key }}}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The store of the checkpoints, as the programs name it. */}}
{{- define "dbqpg.store" -}}
{{- eq .Values.checkpoints.store "volume" | ternary "/checkpoints" .Values.checkpoints.s3.url }}
{{- end }}

{{- define "dbqpg.checkpointVolume" -}}
{{- if eq .Values.checkpoints.store "volume" }}
- name: checkpoints
  persistentVolumeClaim:
    claimName: {{ .Values.checkpoints.volume.existingClaim | default (printf "%s-checkpoints" (include "dbqpg.name" .)) }}
{{- end }}
{{- end }}

{{/* Access of those that only read the checkpoints. */}}
{{- define "dbqpg.readBucket" -}}
{{- include "dbqpg.bucket" (list . (.Values.checkpoints.s3.readOnlySecret | default .Values.checkpoints.s3.existingSecret)) }}
{{- end }}

{{- define "dbqpg.readMount" -}}
{{- if eq .Values.checkpoints.store "volume" }}
- {name: checkpoints, mountPath: /checkpoints, readOnly: true}
{{- end }}
{{- end }}

{{/* Whether several pods can have the checkpoints. */}}
{{- define "dbqpg.sharedStore" -}}
{{- or (eq .Values.checkpoints.store "s3") (eq .Values.checkpoints.volume.accessMode "ReadWriteMany") }}
{{- end }}

{{/* Whether coordinators read the checkpoints, for the curves on their pages: where browsers come, and several pods can have them. */}}
{{- define "dbqpg.curves" -}}
{{- and (eq (include "dbqpg.sharedStore" .) "true")
        (or .Values.dashboard.service.enabled .Values.dashboard.ingress.enabled .Values.dashboard.player.enabled (ne .Values.coordinator.tokensSecret "")) }}
{{- end }}
