"""The commands, with what `dtsflow` alone says of them."""

# A command is the module of its name in this package; it is imported when it is asked
# for, since all of them together take half a second.
COMMANDS = {
    "run": "stream batches as configured (the default: dtsflow +experiment=NAME)",
    "report": "compare finished runs, or the jobs of a sweep: table, CSV, plot",
    "plan": "print what a run would do, and stop: order, graph, memory",
    "pack": "pack images into DTS volumes: folders, tars, volumes, MNIST, CIFAR",
    "verify": "check volumes: header, index, blocks, checksums; name every damage",
    "repair": "mend damaged blocks or headers from sources or a good copy",
    "export": "write a volume's images back as class folders",
    "inspect": "show what a volume holds",
    "synth": "make class folders of photo-like JPEGs to try things on",
    "bench": "time operations, native and reference, and draw what they do",
    "plugins": "list installed plugins, and what a configuration may name of them",
    "new-plugin": "write a plugin of your own to begin with: a project with tests",
    "doctor": "check libraries, memory and CPUs, and say what to do",
}
