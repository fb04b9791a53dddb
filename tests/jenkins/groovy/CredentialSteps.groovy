package jenkinsfile

/** Fake credentials, bound to variables and masked in the log for as long as they are bound. */
class CredentialSteps {
    private final Build build

    CredentialSteps(Build build) { this.build = build }

    Map string(Map given) { given + [kind: 'string'] }

    Map text(Map given) { given + [kind: 'text'] }

    Map booleanParam(Map given) { given + [kind: 'booleanParam'] }

    Map choice(Map given) { given + [kind: 'choice'] }

    Map password(Map given) { given + [kind: 'password'] }

    Map usernamePassword(Map given) { given + [kind: 'usernamePassword'] }

    Map usernameColonPassword(Map given) { given + [kind: 'usernameColonPassword'] }

    Map file(Map given) { given + [kind: 'file'] }

    Object withCredentials(List<Map> bindings, Closure body) {
        List<File> files = []
        try {
            return build.within({ Context inner -> bindings.each { bind(inner, it, files) } }, body)
        } finally {
            files*.deleteDir()
        }
    }

    private void bind(Context inner, Map binding, List<File> files) {
        String id = binding.credentialsId
        Map<String, String> variables
        Credential found
        switch (binding.kind) {
            case 'string':
                found = build.credentials.find(id, 'string')
                variables = [(binding.variable as String): found.secret]
                break
            case 'usernamePassword':
                found = build.credentials.find(id, 'usernamePassword')
                variables = [(binding.usernameVariable as String): found.user,
                             (binding.passwordVariable as String): found.secret]
                break
            case 'usernameColonPassword':
                found = build.credentials.find(id, 'usernamePassword')
                variables = [(binding.variable as String): "${found.user}:${found.secret}" as String]
                break
            case 'file':
                found = build.credentials.find(id, 'file')
                File copy = secretFile(found)
                files << copy.parentFile
                variables = [(binding.variable as String): copy.path]
                break
            default:
                throw new StepFailure("withCredentials: '${binding.kind}' cannot be bound here; string, " +
                                      'usernamePassword, usernameColonPassword or file can')
        }
        give(inner, found, variables)
    }

    /** Bind credentials(id) of an `environment`: NAME, and for a user with a password NAME_USR and NAME_PSW. */
    void bindEnvironment(Context inner, String name, String id) {
        Credential found = build.credentials.find(id)
        switch (found.kind) {
            case 'usernamePassword':
                give(inner, found, [(name): "${found.user}:${found.secret}" as String, (name + '_USR'): found.user,
                                    (name + '_PSW'): found.secret])
                break
            case 'file':
                give(inner, found, [(name): secretFile(found).path])
                break
            default:
                give(inner, found, [(name): found.secret])
        }
    }

    private void give(Context inner, Credential found, Map<String, String> variables) {
        inner.overrides.putAll(variables)
        inner.secrets.addAll(found.secrets)
        inner.secrets.sort { -it.length() }
        build.event('credentials', id: found.id, variables: variables.keySet() as List)
    }

    private File secretFile(Credential found) {
        if (!build.context.allocation) { throw new StepFailure('a secret file needs an agent') }
        File folder = new File(build.context.allocation.temporary, "secretFiles/${UUID.randomUUID()}")
        folder.mkdirs()
        File source = new File(found.secret)
        File copy = new File(folder, source.name)
        copy.bytes = source.bytes
        copy
    }
}
