package jenkinsfile

import groovy.io.FileType
import groovy.transform.CompileStatic
import java.util.concurrent.TimeUnit
import java.nio.file.Files
import java.nio.file.StandardCopyOption
import java.util.regex.Pattern

/** Processes that carry an agent's cookie in their environment, as Jenkins finds what a node left running. */
class Processes {
    static final String COOKIE = 'JENKINS_NODE_COOKIE'

    /** Ask them to end, and kill those that have not after a second. */
    static void stop(String cookie) {
        List<String> found = of(cookie)
        if (!found) { return }
        signal('TERM', found)
        long until = System.currentTimeMillis() + 1000
        while (of(cookie) && System.currentTimeMillis() < until) { Thread.sleep(20) }
        signal('KILL', of(cookie))
    }

    private static void signal(String name, List<String> processes) {
        if (processes) { new ProcessBuilder(['kill', '-' + name] + processes).redirectErrorStream(true).start().waitFor() }
    }

    private static List<String> of(String cookie) {
        new File('/proc').list().findAll { String name ->
            try {
                name.isInteger() && new String(new File("/proc/${name}/environ").bytes, 'ISO-8859-1').contains("${COOKIE}=${cookie}")
            } catch (IOException ignored) {
                false // it ended, or it belongs to someone else
            }
        }
    }
}

/** Runs one command in the workspace and follows its output. */
class CommandRun {
    private final Build build
    private final Context context
    private final StringBuilder kept = new StringBuilder()
    Integer exitCode

    CommandRun(Build build) {
        this.build = build
        this.context = build.context
    }

    /** Run to the end, or until a time limit stops it: then raise Interruption. */
    void run(List<String> command) {
        ProcessBuilder builder = new ProcessBuilder(command).directory(context.workspace).redirectErrorStream(true)
        builder.environment().clear()
        builder.environment().putAll(build.variables() + [(Processes.COOKIE): context.cookie])
        builder.redirectInput(ProcessBuilder.Redirect.from(new File('/dev/null')))
        File output = File.createTempFile('output', '.txt', context.temporary) // a pipe would wait for what the command left running
        Process process = builder.redirectOutput(output).start()
        try {
            while (!process.waitFor(10, TimeUnit.MILLISECONDS)) { context.checkStopped() }
            exitCode = process.exitValue()
        } finally {
            if (process.alive) { stop(process) }
            kept.append(output.getText('UTF-8'))
            if (kept) { build.say(text.endsWith('\n') ? text[0..-2] : text) }
            output.delete()
        }
    }

    String getText() { kept.toString() }

    private static void stop(Process process) {
        List<ProcessHandle> all = process.descendants().iterator().collect() + [process.toHandle()]
        all.each { it.destroy() }
        if (!process.waitFor(2, TimeUnit.SECONDS)) { process.destroyForcibly() }
        all.findAll { it.alive }.each { it.destroyForcibly() }
    }
}

/** The files of a workspace and of the repository that is built. */
class Source {
    private final Build build

    Source(Build build) { this.build = build }

    /** Bring the source into the workspace, a clone of HEAD or a copy; return the variables that Jenkins sets then. */
    Map<String, String> checkout() {
        File target = build.context.workspace
        String path = build.run.source
        if (!new File(path, '.git').exists()) {
            copy(Glob.files(new File(path), '**'), new File(path), target)
            return [:]
        }
        git(target.parentFile, 'clone', '--quiet', '--local', path, target.path)
        git(target, 'checkout', '--quiet', '--detach')
        Map<String, String> found = [GIT_COMMIT: git(target, 'rev-parse', 'HEAD'), GIT_URL: path]
        build.event('checkout', commit: found.GIT_COMMIT)
        found
    }

    private static String git(File folder, String... words) {
        Process process = new ProcessBuilder(['git', '-c', 'safe.directory=*'] + (words as List))
            .directory(folder).redirectErrorStream(true).start()
        String text = process.inputStream.text
        if (process.waitFor()) { throw new StepFailure("checkout: git ${words[0]}: ${text.trim()}") }
        text.trim()
    }

    List<String> list(String includes, String excludes, boolean defaultExcludes) {
        if (!build.context.workspace) { throw new StepFailure('Required context class hudson.FilePath is missing: it needs an agent') }
        Glob.files(build.context.workspace, includes, (excludes ?: '') + (defaultExcludes ? Glob.DEFAULT_EXCLUDES : ''))
    }

    void copy(List<String> paths, File from, File to) {
        to.mkdirs()
        paths.each { String path ->
            File target = new File(to, path)
            target.parentFile.mkdirs()
            Files.copy(new File(from, path).toPath(), target.toPath(), StandardCopyOption.COPY_ATTRIBUTES,
                       StandardCopyOption.REPLACE_EXISTING)
        }
    }
}

/** Ant's file patterns: ? and * within a name, ** across folders. */
@CompileStatic
class Glob {
    static final String DEFAULT_EXCLUDES = ',**/.git/**,**/.gitignore,**/.gitattributes,**/.gitmodules,**/*~,**/#*#,**/.DS_Store'

    static boolean matches(String pattern, String path) { expression(pattern).matcher(path).matches() }

    /** Return the files under `folder` that match a comma-separated list of patterns, sorted. */
    static List<String> files(File folder, String includes, String excludes = '') {
        List<Pattern> wanted = expressions(includes), unwanted = expressions(excludes)
        List<String> found = []
        if (!folder.directory) { return found }
        folder.eachFileRecurse(FileType.FILES) { File file ->
            String path = folder.toPath().relativize(file.toPath()).toString()
            if (any(wanted, path) && !any(unwanted, path)) { found << path }
        }
        found.sort()
    }

    private static boolean any(List<Pattern> all, String path) { all.any { Pattern one -> one.matcher(path).matches() } }

    private static List<Pattern> expressions(String list) {
        list.tokenize(',')*.trim().findAll { String glob -> glob }.collect { String glob -> expression(glob) }
    }

    private static Pattern expression(String glob) {
        String text = glob.endsWith('/') ? glob + '**' : glob
        String regex = (text =~ '(?:\\*\\*/)|/\\*\\*$|\\*\\*|\\*|\\?|[^*?/]+|/').collect { Object one ->
            String part = one.toString()
            ['**/': '(?:.*/)?', '/**': '(?:/.*)?', '**': '.*', '*': '[^/]*', '?': '[^/]'][part] ?: Pattern.quote(part)
        }.join('')
        Pattern.compile(regex)
    }
}
