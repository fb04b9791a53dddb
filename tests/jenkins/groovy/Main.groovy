package jenkinsfile

import groovy.json.JsonOutput
import groovy.json.JsonSlurperClassic
import org.codehaus.groovy.control.MultipleCompilationErrorsException

/** The command: `check FILE...`, `run FILE ...`, and `serve`, which takes such commands as lines of JSON. */
class Main {
    static final int USAGE = 64

    static void main(String... arguments) {
        if (arguments && arguments[0] == 'serve') { serve(); return }
        PrintWriter writer = new PrintWriter(new OutputStreamWriter(System.out, 'UTF-8'), true)
        PrintWriter errors = new PrintWriter(new OutputStreamWriter(System.err, 'UTF-8'), true)
        int code = command(arguments as List, System.getenv(), writer, errors)
        writer.flush()
        errors.flush()
        System.exit(code)
    }

    /** Answer {"args", "env"} with {"exit_code", "stdout", "stderr"}, line by line, until the input ends. */
    private static void serve() {
        PrintStream answers = System.out
        System.out = System.err
        new InputStreamReader(System.in, 'UTF-8').eachLine { String line ->
            Map request = new JsonSlurperClassic().parseText(line) as Map
            StringWriter written = new StringWriter()
            StringWriter errors = new StringWriter()
            int code = command(request.args as List<String>, request.env as Map, new PrintWriter(written),
                               new PrintWriter(errors))
            answers.write((JsonOutput.toJson([exit_code: code, stdout: written.toString(),
                                              stderr: errors.toString()]) + '\n').getBytes('UTF-8'))
            answers.flush()
        }
        System.exit(0)
    }

    private static int command(List<String> arguments, Map<String, String> environment, PrintWriter writer,
                               PrintWriter errors) {
        try {
            switch (arguments ? arguments[0] : '') {
                case 'check': return check(arguments.tail(), writer)
                case 'run': return new RunCommand(new Settings(arguments.tail(), environment), writer).run()
                default: throw new UsageError('jenkinsfile check FILE... | run FILE --workdir DIR --source REPO ...')
            }
        } catch (UsageError wrong) {
            errors.println("jenkinsfile: ${wrong.message}")
            USAGE
        } catch (Throwable broken) {
            errors.println("jenkinsfile: the runner itself failed: ${broken}")
            broken.stackTrace.findAll { it.className.startsWith('jenkinsfile.') }.each { errors.println("  at ${it}") }
            70
        }
    }

    private static int check(List<String> arguments, PrintWriter writer) {
        boolean json = '--json' in arguments
        List<String> files = arguments - '--json'
        if (!files) { throw new UsageError('check needs a Jenkinsfile') }
        List<Problem> problems = files.collectMany { Checker.of(new File(it)).problems }
        Problem.print(problems, json, writer)
        Problem.exitCode(problems)
    }
}

/** The command `run`. */
class RunCommand {
    private final Settings settings
    private final PrintWriter writer

    RunCommand(Settings settings, PrintWriter writer) {
        this.settings = settings
        this.writer = writer
    }

    int run() {
        Checker checker = Checker.of(settings.jenkinsfile)
        if (checker.problems) {
            Problem.print(checker.problems, settings.json, writer)
            return Problem.exitCode(checker.problems)
        }
        checkNames(checker.stages*.name)
        ['workspace', 'stash', 'archive'].each { String name -> new File(settings['workdir'], name).deleteDir() }
        new File(settings['workdir']).mkdirs()
        Console console = new Console(settings['log'] ? new File(settings['log']).newWriter('UTF-8') : writer)
        try {
            Build build = new Build(settings, console)
            String result = execute(build, checker)
            checkTimeouts(build)
            Results.EXIT_CODES[result]
        } catch (MultipleCompilationErrorsException broken) {
            List<Problem> problems = Problem.syntax(settings.jenkinsfile.path, broken)
            Problem.print(problems, settings.json, writer)
            Problem.exitCode(problems)
        } finally {
            if (settings['log']) { console.close() }
        }
    }

    private void checkNames(List<String> stages) {
        ['stage-timeout', 'input-for'].each { String option ->
            settings.map(option).keySet().each { String name ->
                if (name && !(name in stages)) {
                    throw new UsageError("--${option} ${name}: no such stage; there are: ${stages.join(', ')}")
                }
            }
        }
    }

    private void checkTimeouts(Build build) {
        settings.map('stage-timeout').keySet().each { String name ->
            boolean ran = !name || build.trace.stages.any { it.name == name && it.startedMs != null }
            if (ran && !(name in build.replacedTimeouts)) {
                throw new UsageError("--stage-timeout ${name}: it ran, but it has no timeout to replace")
            }
        }
    }

    private String execute(Build build, Checker checker) {
        PipelineScript script = Compiler.compile(settings.jenkinsfile.getText('UTF-8'))
        script.bind(build)
        build.script = script
        Throwable error = null
        try {
            script.run()
            Section pipeline = new ModelReader(script, checker.stages*.line).pipeline(script.pipelineDefinition)
            error = new Interpreter(build).run(pipeline)
        } catch (UsageError wrong) {
            throw wrong
        } catch (Throwable thrown) {
            error = thrown
        }
        if (error instanceof UsageError) { throw error }
        String text = error ? Errors.text(error, build) : null
        if (error) { build.say("ERROR: ${text}") }
        String result = Results.worst([build.currentResult(), Results.of(error)])
        build.say("Finished: ${result}")
        if (settings['trace']) {
            build.trace.write(new File(settings['trace']), [
                jenkinsfile: settings.jenkinsfile.path, result: result, error: text, params: build.params,
                description: build.description])
        }
        result
    }
}
