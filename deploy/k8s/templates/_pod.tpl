{{- /* The spec of a pod with one container of Shoal's: `root` is the chart's context, `name` and `args` are the container's,
`resources` its own, `env` what it is told besides. With `secrets` it has the files of Shoal's secrets. */ -}}
{{- define "shoal.pod" -}}
{{- $ := .root -}}
serviceAccountName: {{ include "shoal.name" $ }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $.Values.terminationGracePeriodSeconds }}
{{- with $.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  # So that it may read the files of its secrets.
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: {{ .name }}
    image: {{ include "shoal.image" $ | quote }}
    args: {{- toYaml .args | nindent 6 }}
    env:
      - {name: SHOAL_POLICY, value: /policy/policy.yaml}
      - {name: SHOAL_WEB_BIND, value: 0.0.0.0}
      - {name: SHOAL_WEB_PORT, value: "6066"}
      {{- range $name, $value := $.Values.settings }}
      - {name: SHOAL_{{ $name }}, value: {{ $value | toString | quote }}}
      {{- end }}
      {{- if .secrets }}
      {{- range $.Values.secret.keys }}
      - {name: SHOAL_{{ . }}_FILE, value: /run/secrets/shoal/{{ . }}}
      {{- end }}
      {{- end }}
      {{- with .env }}{{ toYaml . | nindent 6 }}{{ end }}
    ports:
      - {name: web, containerPort: 6066}
    # Before the first answer a worker waits for Kafka and Redis, and reads everybody back.
    startupProbe:
      httpGet: {path: /health, port: web}
      periodSeconds: 2
      failureThreshold: 60
    # Only that it is alive: a worker whose Redis is away waits for it, and killing it would not help.
    livenessProbe:
      httpGet: {path: /health, port: web}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: /ready, port: web}
      periodSeconds: 10
      timeoutSeconds: 5
    resources: {{- toYaml .resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: policy, mountPath: /policy, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- if .secrets }}
      - {name: secret, mountPath: /run/secrets/shoal, readOnly: true}
      {{- end }}
      {{- if $.Values.certificates.secretName }}
      - {name: certificates, mountPath: /run/certificates, readOnly: true}
      {{- end }}
      {{- if and .snapshots $.Values.snapshots.claimName }}
      - {name: snapshots, mountPath: /snapshots}
      {{- end }}
volumes:
  - name: policy
    configMap: {name: {{ include "shoal.policy" $ }}}
  - name: tmp
    emptyDir: {sizeLimit: 64Mi}
  {{- if .secrets }}
  - name: secret
    secret:
      secretName: {{ $.Values.secret.name }}
      defaultMode: 0440
      items:
        {{- range $.Values.secret.keys }}
        - {key: {{ . }}, path: {{ . }}}
        {{- end }}
  {{- end }}
  {{- with $.Values.certificates.secretName }}
  - name: certificates
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
  {{- if and .snapshots $.Values.snapshots.claimName }}
  - name: snapshots
    persistentVolumeClaim: {claimName: {{ $.Values.snapshots.claimName }}}
  {{- end }}
{{- with $.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A Deployment of one pod that stands beside the workers, `shoal source` or `shoal sink`, and the Service by which Prometheus
finds it. Its pods have a name of their own, or they would count as workers. */ -}}
{{- define "shoal.beside" -}}
{{- $ := .root -}}
{{- $selector := dict "app.kubernetes.io/name" (printf "shoal-%s" .name) "app.kubernetes.io/instance" $.Release.Name -}}
{{- $name := printf "%s-%s" (include "shoal.name" $ | trunc 56 | trimSuffix "-") .name -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "shoal.labels" $ | nindent 4 }}
spec:
  replicas: 1
  selector:
    matchLabels: {{- toYaml $selector | nindent 6 }}
  # There is one at a time: the old one ends before the new one starts.
  strategy: {type: Recreate}
  template:
    metadata:
      labels:
        {{- toYaml $selector | nindent 8 }}
        {{- with $.Values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/policy: {{ toJson $.Values.policy | sha256sum }}
        {{- with $.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec: {{- include "shoal.pod" . | nindent 6 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "shoal.labels" $ | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- toYaml $selector | nindent 4 }}
  ports:
    - {name: web, port: 6066, targetPort: web}
{{- end -}}
