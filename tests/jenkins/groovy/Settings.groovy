package jenkinsfile

import groovy.transform.CompileStatic

/** The command line of `run`. */
@CompileStatic
class Settings {
    static final Set<String> MAPS = ['param', 'env', 'credential', 'input-for', 'input-value', 'stage-timeout',
                                     'lockable'] as Set
    static final Set<String> LISTS = ['label', 'changed'] as Set
    static final Map<String, List<String>> CHOICES = [
        input: ['approve', 'abort'], trigger: ['push', 'timer', 'user', 'upstream'],
        'previous-result': Results.ORDER,
    ]
    static final Set<String> SINGLE = ['workdir', 'source', 'branch', 'tag', 'change-id', 'change-target',
                                       'change-branch', 'change-author', 'change-title', 'docker', 'trace', 'log',
                                       'build-number', 'job'] as Set

    final Map<String, String> single = [:]
    final Map<String, Map<String, String>> maps = [:].withDefault { [:] as LinkedHashMap<String, String> }
    final Map<String, List<String>> lists = [:].withDefault { [] as ArrayList<String> }
    File jenkinsfile
    boolean json
    /** The environment of the command, of which a build sees what BaseEnvironment names. */
    Map<String, String> outside = [:]

    Settings(List<String> arguments, Map<String, String> outside) {
        this.outside = outside
        Iterator<String> words = arguments.iterator()
        while (words.hasNext()) {
            String word = words.next()
            if (word == '--json') {
                json = true
            } else if (word.startsWith('--')) {
                String name = word.substring(2)
                if (!words.hasNext()) { throw new UsageError("${word} needs a value") }
                take(name, words.next())
            } else if (jenkinsfile) {
                throw new UsageError("run takes one Jenkinsfile, found '${word}' too")
            } else {
                jenkinsfile = new File(word)
            }
        }
        require()
    }

    String getAt(String name) { single[name] }

    Map<String, String> map(String name) { maps[name] }

    List<String> list(String name) { lists[name] }

    private void take(String name, String value) {
        if (name in MAPS) {
            int at = value.indexOf('=')
            if (at < 0) { throw new UsageError("--${name} needs NAME=VALUE, not '${value}'") }
            maps[name][value.substring(0, at)] = value.substring(at + 1)
        } else if (name in LISTS) {
            lists[name] << value
        } else if (name in CHOICES.keySet()) {
            if (!(value in CHOICES[name])) {
                throw new UsageError("--${name} must be one of ${CHOICES[name].join(', ')}, not '${value}'")
            }
            single[name] = value
        } else if (name in SINGLE) {
            single[name] = value
        } else {
            throw new UsageError("there is no option --${name}")
        }
    }

    private void require() {
        if (!jenkinsfile) { throw new UsageError('run needs a Jenkinsfile') }
        ['workdir', 'source'].each { String name ->
            if (!single[name]) { throw new UsageError("run needs --${name}") }
        }
        if (!new File(single['source']).directory) { throw new UsageError("--source ${single['source']}: no folder") }
        maps['input-for'].each { String stage, String answer ->
            if (!(answer in CHOICES['input'])) { throw new UsageError("--input-for ${stage}: approve or abort") }
        }
        maps['stage-timeout'].each { String stage, String seconds ->
            if (!seconds.isDouble()) { throw new UsageError("--stage-timeout ${stage}: '${seconds}' is no number") }
        }
        maps['lockable'].each { String label, String count ->
            if (!count.isInteger()) { throw new UsageError("--lockable ${label}: '${count}' is no number") }
        }
    }
}

/** The variables of every build before the Jenkinsfile adds its own. */
class BaseEnvironment {
    static final List<String> PASSED = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TMPDIR', 'USER', 'LOGNAME', 'SSL_CERT_FILE',
                                        'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE', 'XDG_CACHE_HOME', 'XDG_RUNTIME_DIR']
    static final List<String> PREFIXES = ['DOCKER_', 'UV_', 'PIP_', 'http_', 'https_', 'no_', 'HTTP_', 'HTTPS_', 'NO_',
                                          'COPIER_', 'GIT_CONFIG']

    static Map<String, String> of(Settings settings) {
        Map<String, String> found = settings.outside.findAll { String name, String value ->
            name in PASSED || PREFIXES.any { String prefix -> name.startsWith(prefix) }
        }
        String job = settings['job'] ?: 'job'
        String number = settings['build-number'] ?: '1'
        found.putAll([CI: 'true', JENKINS_URL: 'http://jenkins.invalid/', JOB_NAME: job, JOB_BASE_NAME: job,
                      BUILD_NUMBER: number, BUILD_ID: number, BUILD_DISPLAY_NAME: '#' + number,
                      BUILD_TAG: "jenkins-${job}-${number}".toString(), EXECUTOR_NUMBER: '0',
                      JOB_URL: "http://jenkins.invalid/job/${job}/".toString(),
                      BUILD_URL: "http://jenkins.invalid/job/${job}/${number}/".toString()])
        found.putAll(branch(settings))
        found.putAll(settings.map('env'))
        found
    }

    private static Map<String, String> branch(Settings settings) {
        if (settings['tag']) {
            String now = (System.currentTimeMillis().intdiv(1000)).toString()
            return [BRANCH_NAME: settings['tag'], TAG_NAME: settings['tag'], TAG_UNIXTIME: now]
        }
        if (settings['change-id']) {
            String number = settings['change-id']
            return [BRANCH_NAME: 'PR-' + number, CHANGE_ID: number, CHANGE_TARGET: settings['change-target'] ?: 'main',
                    CHANGE_BRANCH: settings['change-branch'] ?: 'change-' + number,
                    CHANGE_AUTHOR: settings['change-author'] ?: 'author',
                    CHANGE_TITLE: settings['change-title'] ?: 'Change ' + number,
                    CHANGE_URL: 'http://host.invalid/change/' + number]
        }
        if (!settings['branch']) { return [:] }
        Map<String, String> found = [BRANCH_NAME: settings['branch']]
        if (settings['branch'] in ['main', 'master']) { found['BRANCH_IS_PRIMARY'] = 'true' }
        found
    }
}
