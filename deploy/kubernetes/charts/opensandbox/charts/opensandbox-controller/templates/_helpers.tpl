{{- define "controller.name" -}}
{{- default "opensandbox-controller-manager" (default .Values.nameOverride .Values.fullnameOverride) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- define "controller.namespace" -}}
{{- default "opensandbox-system" .Values.namespaceOverride -}}
{{- end -}}
{{- define "controller.account" -}}
{{- if .Values.serviceAccount.create }}{{ default "opensandbox-controller-manager" .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end -}}
{{- end -}}
{{- define "controller.selector" -}}
control-plane: controller-manager
app.kubernetes.io/name: opensandbox-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "controller.labels" -}}
{{ include "controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
{{- define "controller.image" -}}
{{- $tag := default .Chart.AppVersion .Values.controller.image.tag -}}
{{- if regexMatch "^[0-9]+\\.[0-9]+\\.[0-9]+$" $tag }}{{ $tag = printf "v%s" $tag }}{{ end -}}
{{ .Values.controller.image.repository }}:{{ $tag }}
{{- end -}}
