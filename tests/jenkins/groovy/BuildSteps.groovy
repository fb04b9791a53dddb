package jenkinsfile

/** Steps that talk: to the console, to people, to other jobs. Nothing leaves the machine. */
class BuildSteps {
    private final Build build

    BuildSteps(Build build) { this.build = build }

    void echo(Object message) {
        String text = String.valueOf(message instanceof Map ? message.message : message)
        build.say(text)
        build.event('echo', text: build.context.mask(text))
    }

    void printlnStep(Object text = '') { build.say(text) }

    void printStep(Object text) { build.say(text) }

    Object withEnv(List<CharSequence> pairs, Closure body) {
        build.within({ Context inner ->
            pairs.each { pair ->
                String text = pair as String
                int at = text.indexOf('=')
                if (at < 1) { throw new StepFailure("withEnv: '${text}' is not NAME=value") }
                build.override(inner, text.substring(0, at), text.substring(at + 1))
            }
        }, body)
    }

    void mail(Map given) { build.event('mail', given: text(given)) }

    void emailext(Map given) { build.event('emailext', given: text(given)) }

    void publishHTML(Map given) { build.event('publishHTML', given: text(given)) }

    /** Starting another job is only noted. */
    Map build(Map given) {
        build.event('build', given: text(given))
        [result: 'SUCCESS', number: 1]
    }

    void properties(List given) { }

    private static Map text(Map given) { given.collectEntries { name, value -> [name as String, value as String] } }
}
