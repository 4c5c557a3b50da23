# The images for several platforms, with a bill of materials and provenance, as releases have them:
#   VERSION=0.1.0 REVISION=$(git rev-parse HEAD) docker buildx bake --file charts/images/docker-bake.hcl [--push] [TARGET...]
# `make images` builds the same Dockerfile for this machine alone.
variable "REGISTRY" {
  default = "ghcr.io/dbqpg"
}

variable "VERSION" {
  default = "0.0.0"
}

variable "REVISION" {
  default = "unknown"
}

group "default" {
  targets = ["coordinator", "actor", "learner-cpu", "learner"]
}

target "common" {
  context    = "."
  dockerfile = "charts/images/Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  args       = { VERSION = VERSION, REVISION = REVISION }
  attest     = ["type=sbom", "type=provenance,mode=max"]
}

target "coordinator" {
  inherits = ["common"]
  target   = "coordinator"
  tags     = ["${REGISTRY}/coordinator:${VERSION}"]
}

target "actor" {
  inherits = ["common"]
  target   = "actor"
  tags     = ["${REGISTRY}/actor:${VERSION}"]
}

target "learner-cpu" {
  inherits = ["common"]
  target   = "learner-cpu"
  tags     = ["${REGISTRY}/learner:${VERSION}-cpu"]
}

target "learner" {
  inherits = ["common"]
  target   = "learner"
  tags     = ["${REGISTRY}/learner:${VERSION}"]
}
