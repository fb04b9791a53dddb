package jenkinsfile

import groovy.json.JsonOutput
import groovy.json.JsonSlurperClassic
import groovy.transform.InheritConstructors
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
                throw new IllegalArgumentException("'${it}': no such stage; there are: ${checker.stages.join(', ')}")
            }
            return [trace: execute(new Build(run))]
        } catch (IllegalArgumentException wrong) {
            return [wrong: wrong.message]
        } catch (Throwable broken) {
            List where = broken.stackTrace.findAll { it.className.startsWith('jenkinsfile.') }.take(10)
            return [broken: "${broken}\n  ${where.join('\n  ')}"]
        }
    }

    private static Map execute(Build build) {
        CompilerConfiguration settings = new CompilerConfiguration(scriptBaseClass: PipelineScript.name)
        String text = new File(build.run.jenkinsfile).getText('UTF-8')
        PipelineScript script = new GroovyShell(Main.classLoader, new Binding(), settings).parse(text, Errors.SCRIPT)
        script.bind(build)
        script.run()
        Throwable error = new Interpreter(build: build).run(new ModelReader(script: script).pipeline(script.pipelineDefinition))
        String said = error ? Errors.text(error) : null
        if (said) { build.say("ERROR: ${said}") }
        [result: Results.worst([build.result, Results.of(error)]), error: said, log: build.log.toString(),
         stages: build.stages*.asMap(), events: build.events]
    }
}

/** A step failed: the build's result becomes FAILURE. */
@InheritConstructors
class StepFailure extends RuntimeException { }

/** The build was stopped: by a time limit, or by the person who was asked. */
@InheritConstructors
class Interruption extends RuntimeException { }

/** Jenkins' results, from best to worst. */
class Results {
    static final List<String> ORDER = ['SUCCESS', 'UNSTABLE', 'FAILURE', 'ABORTED']

    static String worst(Collection<String> results) { (results - [null]).max { ORDER.indexOf(it) } ?: 'SUCCESS' }

    static String of(Throwable error) { error == null ? 'SUCCESS' : error instanceof Interruption ? 'ABORTED' : 'FAILURE' }
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
