package jenkinsfile

import groovy.transform.CompileStatic
import java.util.concurrent.TimeUnit

/** Processes that carry an agent's cookie in their environment, as Jenkins finds what a node left running. */
@CompileStatic
class Processes {
    static final String COOKIE = 'JENKINS_NODE_COOKIE'

    /** Ask them to end, and kill those that have not after a second. */
    static void stop(String cookie) {
        List<String> found = of(cookie)
        if (!found) {
            // A process in the middle of exec shows no environment for a moment.
            Thread.sleep(30)
            found = of(cookie)
        }
        if (!found) { return }
        signal('TERM', found)
        long until = System.currentTimeMillis() + 1000
        while (of(cookie) && System.currentTimeMillis() < until) { Thread.sleep(20) }
        List<String> left = of(cookie)
        if (left) { signal('KILL', left) }
    }

    private static void signal(String name, List<String> processes) {
        new ProcessBuilder(['kill', '-' + name] + processes).redirectErrorStream(true).start().waitFor()
    }

    private static List<String> of(String cookie) {
        List<String> found = []
        for (String name : new File('/proc').list()) {
            if (!name.isInteger()) { continue }
            try {
                String text = new String(new File("/proc/${name}/environ").bytes, 'ISO-8859-1')
                if (text.contains("${COOKIE}=${cookie}")) { found << name }
            } catch (IOException ignored) {
                // it ended, or it belongs to someone else
            }
        }
        found
    }
}

/** Runs one command and follows its output. */
@CompileStatic
class CommandRun {
    static final int KEPT = 65536
    private final Build build
    private final Context context
    private final File output
    private final StringBuilder kept = new StringBuilder()
    private final StringBuilder line = new StringBuilder()
    private final boolean quiet
    Integer exitCode

    CommandRun(Build build, boolean quiet) {
        this.build = build
        this.context = build.context
        this.quiet = quiet
        output = File.createTempFile('output', '.txt', context.allocation.temporary)
    }

    /** Run to the end, or until a time limit or another branch stops it: then raise Interruption. */
    void run(List<String> command, Map<String, String> environment, File errors) {
        ProcessBuilder builder = new ProcessBuilder(command).directory(context.directory)
        builder.environment().clear()
        builder.environment().putAll(environment)
        builder.redirectInput(ProcessBuilder.Redirect.from(new File('/dev/null')))
        builder.redirectOutput(output)
        if (errors) { builder.redirectError(errors) } else { builder.redirectErrorStream(true) }
        Process process = builder.start()
        RandomAccessFile reader = new RandomAccessFile(output, 'r')
        try {
            while (!process.waitFor(20, TimeUnit.MILLISECONDS)) {
                follow(reader)
                context.checkStopped()
            }
            exitCode = process.exitValue()
        } finally {
            if (process.alive) { stop(process) }
            follow(reader)
            if (line.length()) { say() }
            reader.close()
            output.delete()
        }
    }

    String getText() { kept.toString() }

    private void follow(RandomAccessFile reader) {
        byte[] fresh = new byte[(int) Math.min(reader.length() - reader.filePointer, 1 << 20)]
        if (!fresh.length) { return }
        reader.readFully(fresh)
        context.deadlines.each { Deadline deadline -> deadline.output() }
        String text = new String(fresh, 'UTF-8')
        if (quiet || kept.length() < KEPT) { kept.append(text) }
        if (quiet) { return }
        for (char letter : text.toCharArray()) {
            if (letter == ('\n' as char)) { say() } else { line.append(letter) }
        }
    }

    private void say() {
        build.console.say(context, line.toString())
        line.length = 0
    }

    private static void stop(Process process) {
        List<ProcessHandle> all = []
        process.descendants().each { ProcessHandle child -> all << child }
        all.each { ProcessHandle child -> child.destroy() }
        process.destroy()
        if (!process.waitFor(2, TimeUnit.SECONDS)) { process.destroyForcibly() }
        all.findAll { ProcessHandle child -> child.alive }.each { ProcessHandle child -> child.destroyForcibly() }
    }
}

/** The command for docker agents: it gets the image and the command, and does what Jenkins does with docker. */
@CompileStatic
class DockerAgent {
    private final Build build

    DockerAgent(Build build) { this.build = build }

    private String getWrapper() {
        String wrapper = build.settings['docker']
        if (!wrapper) { throw new StepFailure('a docker agent needs a docker command: --docker WRAPPER') }
        wrapper
    }

    List<String> command(List<String> inner, Collection<String> names) {
        Context context = build.context
        List<String> words = [wrapper, 'run', '--image', context.image, '--workspace', context.workspace.path,
                              '--workdir', context.directory.path, '--args', context.imageArguments ?: '']
        names.each { String name -> words.addAll(['--env', name]) }
        words + ['--'] + inner
    }

    /** Build the image of a dockerfile agent and return its name. */
    String build(Map agent) {
        Context context = build.context
        String folder = agent['dir'] ?: '.'
        String tag = 'jenkinsfile-' + context.allocation.cookie
        List<String> words = [wrapper, 'build', '--file', "${folder}/${agent['filename'] ?: 'Dockerfile'}".toString(),
                              '--context', folder, '--tag', tag, '--args', (agent['additionalBuildArgs'] ?: '') as String]
        CommandRun run = new CommandRun(build, false)
        run.run(words, build.variables(), null)
        if (run.exitCode != 0) { throw new StepFailure("the image of the agent was not built: exit code ${run.exitCode}") }
        tag
    }
}

/** The step `sh`. */
@CompileStatic
class ShellSteps {
    private final Build build

    ShellSteps(Build build) { this.build = build }

    Object sh(CharSequence script) { sh([script: script]) }

    Object sh(Map given) {
        Context context = build.context
        if (!context.workspace) {
            throw new StepFailure("Attempted to execute a step that requires a node context while 'agent none' was " +
                                  "specified. Be sure to specify your own 'node { ... }' blocks when using 'agent none'.")
        }
        if (given['script'] == null) { throw new StepFailure("sh: Missing required parameter: 'script'") }
        context.checkStopped()
        String script = given['script'] as String
        boolean quiet = given['returnStdout'] as boolean
        File file = File.createTempFile('script', '.sh', context.allocation.temporary)
        file.setText(script, 'UTF-8')
        file.setReadable(true, false)
        file.setExecutable(true, false)
        File errors = quiet ? File.createTempFile('errors', '.txt', context.allocation.temporary) : null
        CommandRun run = new CommandRun(build, quiet)
        long started = System.currentTimeMillis()
        try {
            run.run(command(script, file), environment(), errors)
        } finally {
            String said = errors?.getText('UTF-8')?.trim()
            if (said) { build.say(said) }
            errors?.delete()
            file.delete()
            String output = run.text.take(CommandRun.KEPT).toString()
            build.event('sh', script: context.mask(script.stripIndent().trim()), exit_code: run.exitCode,
                        output: context.mask(output), duration_ms: System.currentTimeMillis() - started)
        }
        if (given['returnStatus']) { return run.exitCode }
        if (run.exitCode != 0) { throw new StepFailure("script returned exit code ${run.exitCode}") }
        quiet ? run.text : null
    }

    private List<String> command(String script, File file) {
        List<String> inner = script.startsWith('#!') ? [file.path] : ['sh', '-xe', file.path]
        if (!build.context.image) { return inner }
        Map<String, String> outside = build.settings.outside
        Set<String> own = environment().findAll { String name, String value ->
            name != 'PATH' && outside[name] != value }.keySet()
        new DockerAgent(build).command(inner, own)
    }

    private Map<String, String> environment() {
        build.variables() + [(Processes.COOKIE): build.context.allocation.cookie]
    }
}
