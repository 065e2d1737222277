module opensandbox-examples

go 1.19

require github.com/alibaba/OpenSandbox/sdks/sandbox/go v0.0.0

replace github.com/alibaba/OpenSandbox/sdks/sandbox/go => ../sdks/go
