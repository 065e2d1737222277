{{- define "server.name" -}}
{{- default "opensandbox-server" .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "server.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}
{{- define "server.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "server.name" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end -}}
{{- end -}}
{{- define "server.selector" -}}
app.kubernetes.io/name: {{ include "server.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ include "server.name" . }}-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "server.labels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
{{- define "server.tag" -}}
{{- $tag := default .chart.AppVersion .tag -}}
{{- if regexMatch "^[0-9]+\\.[0-9]+\\.[0-9]+$" $tag }}v{{ end }}{{ $tag }}
{{- end -}}
{{- define "server.secret" -}}
{{- default (printf "%s-api-key" (include "server.name" .)) .Values.server.auth.existingSecret -}}
{{- end -}}
{{- define "server.toml" -}}
{{ .Values.configToml }}
{{- if .Values.server.gateway.enabled }}
{{- $g := .Values.server.gateway }}

[ingress]
mode = "gateway"

[ingress.gateway]
address = {{ required "server.gateway.host is needed with server.gateway.enabled" $g.host | quote }}

[ingress.gateway.route]
mode = {{ $g.gatewayRouteMode | quote }}
{{- if $g.secureAccess.keys }}

[ingress.secure_access]
active_key = {{ $g.secureAccess.activeKey | quote }}
{{- range $g.secureAccess.keys }}

[[ingress.secure_access.keys]]
key_id = {{ .key_id | quote }}
key = {{ .key | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
