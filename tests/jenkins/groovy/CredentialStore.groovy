package jenkinsfile

import groovy.transform.CompileStatic

/** A fake credential. `kind` is string, usernamePassword or file. */
@CompileStatic
class Credential {
    static final Map<String, String> TYPES =
        [string: 'Secret text', usernamePassword: 'Username with password', file: 'Secret file']

    String id
    String kind
    String user
    String secret

    String getType() { TYPES[kind] }

    /** What the log must not show. */
    List<String> getSecrets() {
        List<String> all = kind == 'file' ? [] : secret.readLines() + [secret]
        (kind == 'usernamePassword' ? all + ["${user}:${secret}".toString()] : all).findAll { it } as List<String>
    }
}

/** The credentials that a run knows. */
@CompileStatic
class CredentialStore {
    private final Map<String, Credential> byId = [:]

    /** given: id to "string:TEXT", "usernamePassword:USER:PASSWORD", "file:PATH" or plain TEXT. */
    CredentialStore(Map<String, String> given) {
        given.each { String id, String value -> byId[id] = parse(id, value) }
    }

    Credential find(String id) {
        Credential found = byId[id]
        if (!found) { throw new StepFailure("Could not find credentials entry with ID '${id}'") }
        found
    }

    Credential find(String id, String kind) {
        Credential found = find(id)
        if (found.kind != kind) {
            throw new StepFailure("Credentials '${id}' is of type '${found.type}' where '${Credential.TYPES[kind]}' " +
                                  'was expected')
        }
        found
    }

    private static Credential parse(String id, String value) {
        String kind = Credential.TYPES.keySet().find { String name -> value.startsWith(name + ':') }
        String rest = kind ? value.substring(kind.length() + 1) : value
        if (kind == 'usernamePassword') {
            int at = rest.indexOf(':')
            if (at < 0) { throw new UsageError("--credential ${id}=usernamePassword: needs USER:PASSWORD") }
            return new Credential(id: id, kind: kind, user: rest.substring(0, at), secret: rest.substring(at + 1))
        }
        if (kind == 'file' && !new File(rest).file) { throw new UsageError("--credential ${id}: no file ${rest}") }
        new Credential(id: id, kind: kind ?: 'string', secret: rest)
    }
}
