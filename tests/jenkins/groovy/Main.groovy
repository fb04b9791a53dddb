package jenkinsfile

import groovy.json.JsonOutput
import groovy.json.JsonSlurperClassic
import org.codehaus.groovy.control.CompilerConfiguration

/** Answers requests, lines of JSON: {"check": [files]} and {"run": {...}}, as runner.py writes them. */
class Main {
    static void main(String... arguments) {
        PrintStream answers = System.out
        System.out = System.err
        Definitions.read(new File(arguments[0]))
        new InputStreamReader(System.in, 'UTF-8').eachLine { String line ->
            answers.write((JsonOutput.toJson(answer((Map) new JsonSlurperClassic().parseText(line))) + '\n').getBytes('UTF-8'))
            answers.flush()
        }
    }

    private static Map answer(Map request) {
        try {
            if (request.check) {
                return [problems: request.check.collectMany { Checker.of(new File(it)).problems*.asMap() }]
            }
            Map run = request.run
            Checker checker = Checker.of(new File(run.jenkinsfile))
            if (checker.problems) { return [problems: checker.problems*.asMap()] }
            (run.timeouts.keySet() + (run.only ?: []) - checker.stages).each {
                throw new UsageError("'${it}': no such stage; there are: ${checker.stages.join(', ')}")
            }
            return [trace: execute(new Build(run))]
        } catch (UsageError wrong) {
            return [wrong: wrong.message]
        } catch (Throwable broken) {
            List where = broken.stackTrace.findAll { it.className.startsWith('jenkinsfile.') }.take(10)
            return [broken: "${broken}\n  ${where.join('\n  ')}"]
        }
    }

    private static Map execute(Build build) {
        CompilerConfiguration settings = new CompilerConfiguration(scriptBaseClass: PipelineScript.name)
        String text = new File(build.run.jenkinsfile).getText('UTF-8')
        Throwable error = null
        try {
            PipelineScript script = new GroovyShell(Main.classLoader, new Binding(), settings).parse(text, Errors.SCRIPT)
            script.bind(build)
            script.run()
            error = new Interpreter(build).run(new ModelReader(script).pipeline(script.pipelineDefinition))
        } catch (UsageError wrong) {
            throw wrong
        } catch (Throwable thrown) {
            error = thrown
        }
        String said = error ? Errors.text(error) : null
        if (said) { build.say("ERROR: ${said}") }
        build.run.timeouts.keySet().each { String name ->
            boolean ran = build.trace.stages.any { it.name == name && it.startedMs != null }
            if (ran && !(name in build.replacedTimeouts)) { throw new UsageError("'${name}' ran, but has no timeout to replace") }
        }
        [result: Results.worst([build.result, Results.of(error)]), error: said, log: build.log.toString(),
         stages: build.trace.stages*.asMap(), events: build.trace.events]
    }
}

/** The test asks for what cannot be. */
class UsageError extends RuntimeException {
    UsageError(String message) { super(message) }
}

/** A step failed: the build's result becomes FAILURE. */
class StepFailure extends RuntimeException {
    StepFailure(String message) { super(message) }
}

/** The build was stopped: by a time limit, or by the person who was asked. */
class Interruption extends RuntimeException {
    final Deadline deadline

    Interruption(String message, Deadline deadline = null) {
        super(message)
        this.deadline = deadline
    }
}

/** The time limit of one `timeout`. It stops each thread once: what runs afterwards, such as `post`, goes on. */
class Deadline {
    final double seconds
    final long at
    final Set<Long> seen = Collections.synchronizedSet(new HashSet<Long>())

    Deadline(double seconds) {
        this.seconds = seconds
        this.at = System.currentTimeMillis() + (long) (seconds * 1000)
    }
}

/** Jenkins' results, from best to worst. */
class Results {
    static final List<String> ORDER = ['SUCCESS', 'UNSTABLE', 'FAILURE', 'ABORTED']

    static String worst(Collection<String> results) { (results - [null]).max { ORDER.indexOf(it) } ?: 'SUCCESS' }

    static String of(Throwable error) {
        error == null ? 'SUCCESS' : error instanceof Interruption ? 'ABORTED' : 'FAILURE'
    }
}

/** Errors in one line. */
class Errors {
    static final String SCRIPT = 'Jenkinsfile.groovy'

    static String text(Throwable error) {
        if (error instanceof StepFailure || error instanceof Interruption) { return error.message }
        String where = error.stackTrace.find { it.fileName == SCRIPT }?.lineNumber
        "${where ? "Jenkinsfile:${where}: " : ''}${error.class.name}: ${error.message}"
    }
}
