package jenkinsfile

/** Gives a body its agent: a fresh workspace on a node, in an image if the agent is a docker one. */
class Agents {
    static final Map<String, String> FIRST = [label: 'label', node: 'label', docker: 'image', dockerfile: 'filename']
    private final Build build

    Agents(Build build) { this.build = build }

    void run(Object declared, boolean skipCheckout, Closure body) {
        Map agent = read(declared)
        switch (agent.kind) {
            case [null, 'none']: body.call(); return
            case 'any': onNode(null, agent, skipCheckout, body); return
            case ['label', 'node']: onNode(agent.label as String, agent, skipCheckout, body); return
            case ['docker', 'dockerfile']: inImage(agent, skipCheckout, body); return
            default: throw new StepFailure("agent '${agent.kind}' cannot be run here; any, label, docker or dockerfile can")
        }
    }

    /** Return the kind and the settings of an `agent`; its values are read now, when variables are known. */
    private Map read(Object declared) {
        if (declared == null) { return [:] }
        if (!(declared instanceof Closure)) { return [kind: declared as String] }
        Map agent = [:]
        Map<String, Closure> kinds = Catalog.AGENTS.collectEntries { kind, settings ->
            [kind, { Object... given ->
                agent.kind = kind
                if (given && given[0] instanceof Closure) {
                    new Block(build.script, settings.collectEntries { name ->
                        [name, { Object... value -> agent[name] = value ? value[0] : true }] }).read(given[0])
                } else if (given) {
                    agent[FIRST[kind]] = given[0]
                }
            }]
        }
        Closure bare = { name ->
            if (name in ['any', 'none', 'dockerfile']) { agent.kind = name }
            name in ['any', 'none', 'dockerfile'] ? name : null
        }
        new Block(build.script, kinds, null, bare).read((Closure) declared)
        agent
    }

    private void inImage(Map agent, boolean skipCheckout, Closure body) {
        if (agent.registryCredentialsId) { build.credentials.find(agent.registryCredentialsId as String) }
        if (agent.reuseNode as boolean && build.context.workspace) {
            withImage(agent, body)
        } else {
            onNode(agent.label as String, agent, skipCheckout) { withImage(agent, body) }
        }
    }

    private void withImage(Map agent, Closure body) {
        DockerAgent docker = new DockerAgent(build)
        String image = agent.kind == 'docker' ? agent.image as String : docker.build(agent)
        if (!image || image == 'null') { throw new StepFailure('the docker agent has no image: its name is empty') }
        build.context.stage?.with { it.image = image }
        build.within({ it.image = image; it.imageArguments = agent.args as String ?: '' }, body)
    }

    /** Run `body` on a node of that label, in a new empty workspace; stop what it left running. */
    void onNode(String label, Map agent, boolean skipCheckout, Closure body) {
        Node node = build.nodes.find(label)
        Allocation allocation = new Allocation(workspace: build.newWorkspace(label))
        allocation.temporary = new File(allocation.workspace.path + '@tmp')
        allocation.temporary.mkdirs()
        StageRecord stage = build.context.stage
        if (stage) { stage.label = label ?: 'any'; stage.node = node.name }
        try {
            build.within({ Context inner ->
                inner.label = label ?: 'any'
                inner.node = node
                inner.allocation = allocation
                inner.workspace = allocation.workspace
                inner.directory = allocation.workspace
                inner.image = null
                inner.overrides.putAll(WORKSPACE: allocation.workspace.path, WORKSPACE_TMP: allocation.temporary.path,
                                       NODE_NAME: node.name, NODE_LABELS: node.labels.join(' '))
                if (node.path) {
                    inner.overrides.PATH = node.path + File.pathSeparator + (build.environment.PATH ?: '')
                }
            }) {
                build.event('node', labels: node.labels as List, workspace: allocation.workspace.path)
                build.say("Running on ${node.name} in ${allocation.workspace}")
                if (skipCheckout) {
                    body.call()
                } else {
                    Map found = new FileSteps(build).checkoutSource(build.checkoutFolder)
                    build.within({ inner -> inner.overrides.putAll(found) }, body)
                }
            }
        } finally {
            Processes.stop(allocation.cookie)
        }
    }
}
