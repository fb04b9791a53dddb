package jenkinsfile

import javax.xml.parsers.DocumentBuilderFactory
import org.xml.sax.SAXException

/** The steps that definitions.json lists, a method for each. */
class Steps {
    static final Map<String, Integer> SECONDS = [SECONDS: 1, MINUTES: 60, HOURS: 3600, DAYS: 86400]
    Build build

    Source getFiles() { new Source(build: build) }

    /** Call a step by its name: step('x') is step(name: 'x'), for the parameter that may come alone. */
    Object call(String name, Object[] given) {
        Map definition = Definitions.of('steps')[name]
        if (name == 'script') { return given[0].call() }
        if (Definitions.of('bindings').containsKey(name)) { return plain(given[0]) + [kind: name] }
        if (!definition) { throw new StepFailure("No such DSL method '${name}' found among steps") }
        List words = given as List
        Closure body = definition.block ? (Closure) words.remove(words.size() - 1) : null
        Map named = words && words[0] instanceof Map ? words[0] : words ? [(definition.alone): words[0]] : [:]
        body ? this."$name"(plain(named), body) : this."$name"(plain(named))
    }

    /** With "${...}" as the string it is. */
    private static Map plain(Map given) { given.collectEntries { key, value -> [key, value instanceof GString ? value as String : value] } }

    void echo(Map given) {
        build.say(given.message)
        build.event('echo', text: build.context.mask(given.message as String))
    }

    void sh(Map given) {
        Context context = build.context
        if (!context.workspace) { throw new StepFailure('sh: Required context class hudson.FilePath is missing: it needs an agent') }
        context.checkStopped()
        File file = File.createTempFile('script', '.sh', context.temporary)
        file.setText(given.script as String, 'UTF-8')
        CommandRun run = new CommandRun(build: build)
        try {
            run.run(['sh', '-xe', file.path])
        } finally {
            file.delete()
            build.event('sh', script: context.mask((given.script as String).stripIndent().trim()), exit_code: run.exitCode,
                        output: context.mask(run.text))
        }
        if (run.exitCode) { throw new StepFailure("script returned exit code ${run.exitCode}") }
    }

    void timeout(Map given, Closure body) {
        double seconds = build.run.timeouts[build.context.stage?.name ?: ''] ?: given.time * SECONDS[given.unit ?: 'MINUTES']
        long end = System.currentTimeMillis() + (long) (seconds * 1000)
        try {
            build.within({ it.deadlines << end }, body)
        } catch (Interruption stopped) {
            if (System.currentTimeMillis() >= end) { build.event('timeout', seconds: seconds) }
            throw stopped
        }
    }

    /** There is one resource of a label, named LABEL-1, whose property DEVICE is 0, as docs/jenkins declares them. */
    void lock(Map given, Closure body) {
        if ((given.quantity ?: 1) != 1) { throw new StepFailure("lock: ${given.quantity} resources wanted, there is 1") }
        String name = given.resource ?: "${given.label}-1", variable = given.variable
        build.event('lock', resource: name)
        Map told = variable ? [(variable): name, (variable + '0'): name, (variable + '0_DEVICE'): '0'] : [:]
        build.within({ it.overrides.putAll(told) }, body)
    }

    void milestone(Map given) {
        long next = given.ordinal
        if (build.milestones.any { it >= next }) { throw new StepFailure("Milestone ${next} passed out of order") }
        build.milestones << next
        build.event('milestone', ordinal: next)
    }

    void withEnv(Map given, Closure body) {
        build.within({ inner ->
            given.overrides.each { String pair ->
                List<String> parts = pair.split('=', 2)
                inner.overrides[parts[0]] = parts[1]
            }
        }, body)
    }

    void withCredentials(Map given, Closure body) {
        List<File> copies = []
        try {
            build.within({ Context inner -> given.bindings.each { bind(inner, it, copies) } }, body)
        } finally {
            copies*.delete()
        }
    }

    private void bind(Context inner, Map binding, List<File> copies) {
        Map found = build.run.credentials[binding.credentialsId]
        if (!found) { throw new StepFailure("Could not find credentials entry with ID '${binding.credentialsId}'") }
        if (found.kind != binding.kind) {
            throw new StepFailure("Credentials '${binding.credentialsId}' is of type '${found.kind}' where '${binding.kind}' was expected")
        }
        Map<String, String> variables = [(binding.variable): found.secret]
        if (found.kind == 'usernamePassword') {
            variables = [(binding.usernameVariable): found.user, (binding.passwordVariable): found.secret]
        }
        if (found.kind == 'file') {
            File copy = File.createTempFile('secret', '.txt', inner.temporary)
            copy.bytes = new File(found.secret).bytes
            copies << copy
            variables = [(binding.variable): copy.path]
        } else {
            inner.secrets << found.secret
        }
        inner.overrides.putAll(variables)
        build.event('credentials', id: binding.credentialsId, variables: variables.keySet() as List)
    }

    void stash(Map given) {
        List<String> found = files.list(given.includes ?: '**', given.excludes, given.useDefaultExcludes != false)
        if (!found && !given.allowEmpty) { throw new StepFailure("No files included in stash '${given.name}'") }
        File target = new File(build.workdir, "stash/${given.name}")
        target.deleteDir()
        files.copy(found, build.context.workspace, target)
        build.event('stash', name: given.name as String, files: found)
    }

    void unstash(Map given) {
        File folder = new File(build.workdir, "stash/${given.name}")
        if (!folder.directory) { throw new StepFailure("No such saved stash '${given.name}'") }
        List<String> found = Glob.files(folder, '**')
        files.copy(found, folder, build.context.workspace)
        build.event('unstash', name: given.name as String, files: found)
    }

    void archiveArtifacts(Map given) {
        List<String> found = files.list(given.artifacts, given.excludes, given.defaultExcludes != false)
        if (!found && !given.allowEmptyArchive) { throw new StepFailure("No artifacts found that match \"${given.artifacts}\"") }
        files.copy(found, build.context.workspace, new File(build.workdir, 'archive'))
        build.event('archiveArtifacts', files: found)
    }

    void deleteDir(Map given) {
        build.context.workspace.deleteDir()
        build.context.workspace.mkdirs()
    }

    void junit(Map given) {
        List<String> found = files.list(given.testResults, null, false)
        Map<String, Integer> counts = [total: 0, failed: 0, skipped: 0]
        found.each { count(new File(build.context.workspace, it), counts) }
        if (!counts.total && !given.allowEmptyResults) {
            throw new StepFailure(found ? 'None of the test reports contained any result' : 'No test report files were found. Configuration error?')
        }
        build.event([files: found] + counts, 'junit')
        if (counts.failed && !given.skipMarkingBuildUnstable) { build.worsen('UNSTABLE') }
    }

    private static void count(File file, Map<String, Integer> counts) {
        Object reader = DocumentBuilderFactory.newInstance().newDocumentBuilder()
        reader.errorHandler = null
        try {
            Object cases = reader.parse(file).getElementsByTagName('testcase')
            (0..<cases.length).collect { cases.item(it) }.each { one ->
                Closure has = { String name -> one.getElementsByTagName(name).length > 0 }
                counts.total += 1
                if (has('failure') || has('error')) { counts.failed += 1 } else if (has('skipped')) { counts.skipped += 1 }
            }
        } catch (SAXException broken) {
            throw new StepFailure("Failed to read test report file ${file}: ${broken.message}")
        }
    }
}
