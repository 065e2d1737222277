using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("OpenSandbox.CodeInterpreter")]
