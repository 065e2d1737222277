module github.com/alibaba/OpenSandbox/sdks/sandbox/go

go 1.19
