{{- define "magnetar.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Of one part of the fleet: (dict "root" . "part" "broker") */}}
{{- define "magnetar.selector" -}}
app.kubernetes.io/name: magnetar
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "magnetar.labels" -}}
{{ include "magnetar.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "magnetar.image" -}}
{{ required "image.repository is needed: push the image of `make image` to a registry of yours and name it" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "magnetar.brokerDomain" -}}
{{ include "magnetar.name" . }}-brokers.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{/* A few brokers: whichever answers tells of the others. */}}
{{- define "magnetar.brokerRpcUrls" -}}
{{- $urls := list }}
{{- range $number := until (min 3 (int .Values.broker.replicas) | int) }}
{{- $urls = append $urls (printf "https://%s-broker-%d.%s:7650" (include "magnetar.name" $) $number (include "magnetar.brokerDomain" $)) }}
{{- end }}
{{- join "," $urls }}
{{- end }}

{{- define "magnetar.sharedClaim" -}}
{{ .Values.sharedStorage.existingClaim | default (printf "%s-shared" (include "magnetar.name" .)) }}
{{- end }}

{{- define "magnetar.scheme" -}}
{{ ternary "HTTPS" "HTTP" (not (empty .Values.clientTlsSecretName)) }}
{{- end }}

{{/* Settings of every process. */}}
{{- define "magnetar.env" -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- { name: MAGNETAR_CLUSTER_NAME, value: {{ .Values.clusterName | quote }} }
- { name: MAGNETAR_ANONYMOUS_PUBLIC, value: "false" }
- { name: MAGNETAR_BROKER_RPC_URL, value: {{ include "magnetar.brokerRpcUrls" . | quote }} }
- { name: MAGNETAR_WEB_INTERNAL_URL, value: "https://{{ include "magnetar.name" . }}-web-internal.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:7651" }
- { name: MAGNETAR_INTERNAL_TLS_CERT_FILE, value: "/fleet/tls/{service}.pem" }
- { name: MAGNETAR_INTERNAL_TLS_KEY_FILE, value: "/fleet/tls/{service}.key" }
- { name: MAGNETAR_INTERNAL_TLS_CA_FILE, value: /fleet/tls/authority.pem }
{{- range $setting, $key := dict "DATABASE_URL" "database-url" "METADATA_URL" "metadata-url" "LEDGER_URL" "ledger-url" "REDIS_URL" "redis-url" }}
- name: MAGNETAR_{{ $setting }}
  valueFrom: { secretKeyRef: { name: {{ required "urlsSecretName is needed: a Secret with database-url, metadata-url, ledger-url and redis-url" $.Values.urlsSecretName }}, key: {{ $key }} } }
{{- end }}
{{- if .Values.clientTlsSecretName }}
- { name: MAGNETAR_TLS, value: files }
- { name: MAGNETAR_TLS_CERT_FILE, value: /client-tls/tls.crt }
- { name: MAGNETAR_TLS_KEY_FILE, value: /client-tls/tls.key }
{{- end }}
{{- range $setting, $value := .Values.settings }}
- { name: MAGNETAR_{{ upper $setting }}, value: {{ (kindIs "slice" $value | ternary (join "," $value) $value) | toString | quote }} }
{{- end }}
{{- end }}

{{/* Puts what make-fleet made where processes find it, readable for them alone: files of a Secret are readable for a group. */}}
{{- define "magnetar.init" -}}
- name: secrets
  image: {{ include "magnetar.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, -ec]
  args:
    - |
      umask 077
      tar -xf /fleet-archive/fleet.tar -C /fleet
      mkdir -p /var/lib/magnetar/secrets
      cp -R /fleet/secrets/. /var/lib/magnetar/secrets/
      rm -rf /fleet/secrets /fleet/tls/authority.key
  securityContext: {{- include "magnetar.containerSecurity" . | nindent 4 }}
  resources:
    requests: { cpu: 10m, memory: 16Mi }
    limits: { memory: 64Mi }
  volumeMounts:
    - { name: data, mountPath: /var/lib/magnetar }
    - { name: fleet, mountPath: /fleet }
    - { name: fleet-archive, mountPath: /fleet-archive, readOnly: true }
{{- end }}

{{/* Of web processes and workers: hours of usage are computed in one place, from what brokers have, and reports are made there. */}}
{{- define "magnetar.sharedMounts" -}}
- { name: shared, mountPath: /var/lib/magnetar/usage, subPath: usage }
- { name: shared, mountPath: /var/lib/magnetar/reports, subPath: reports }
{{- end }}

{{- define "magnetar.mounts" -}}
- { name: data, mountPath: /var/lib/magnetar }
- { name: fleet, mountPath: /fleet, readOnly: true }
- { name: temporary, mountPath: /tmp }
{{- if .Values.clientTlsSecretName }}
- { name: client-tls, mountPath: /client-tls, readOnly: true }
{{- end }}
{{- end }}

{{- define "magnetar.sharedVolume" -}}
- name: shared
  persistentVolumeClaim: { claimName: {{ include "magnetar.sharedClaim" . }} }
{{- end }}

{{- define "magnetar.volumes" -}}
- name: fleet
  emptyDir: { medium: Memory, sizeLimit: 8Mi }
- name: temporary
  emptyDir: { sizeLimit: 1Gi }
- name: fleet-archive
  secret: { secretName: {{ required "secretName is needed: a Secret with fleet.tar, made with `magnetar keys make-fleet`" .Values.secretName }}, defaultMode: 0440 }
{{- if .Values.clientTlsSecretName }}
- name: client-tls
  secret: { secretName: {{ .Values.clientTlsSecretName }}, defaultMode: 0440 }
{{- end }}
{{- end }}

{{- define "magnetar.podSecurity" -}}
runAsNonRoot: true
runAsUser: 6650
runAsGroup: 6650
fsGroup: 6650
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "magnetar.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Pods of one part on different nodes, where there are enough: (dict "root" . "part" "broker" "values" .Values.broker) */}}
{{- define "magnetar.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not .values.affinity }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: { matchLabels: {{ include "magnetar.selector" . | fromYaml | toJson }} }
{{- end }}
{{- end }}
