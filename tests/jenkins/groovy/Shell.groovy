package jenkinsfile

import groovy.io.FileType
import java.util.concurrent.TimeUnit
import java.nio.file.FileSystems
import java.nio.file.Files
import java.nio.file.Path
import java.nio.file.PathMatcher
import java.nio.file.Paths
import java.nio.file.StandardCopyOption

/** Runs one command in the workspace and follows its output. */
class CommandRun {
    Build build
    Integer exitCode
    String text = ''

    /** Run to the end, or until a time limit stops it: then raise Interruption. */
    void run(List<String> command) {
        Context context = build.context
        ProcessBuilder builder = new ProcessBuilder(command).directory(context.workspace).redirectErrorStream(true)
        builder.environment().clear()
        builder.environment().putAll(build.variables())
        builder.redirectInput(ProcessBuilder.Redirect.from(new File('/dev/null')))
        File output = File.createTempFile('output', '.txt', context.temporary) // a pipe would wait for what the command left running
        Process process = builder.redirectOutput(output).start()
        try {
            while (!process.waitFor(10, TimeUnit.MILLISECONDS)) { context.checkStopped() }
            exitCode = process.exitValue()
        } finally {
            if (process.alive) { stop(process) }
            text = output.getText('UTF-8')
            if (text) { build.say(text.endsWith('\n') ? text[0..-2] : text) }
            output.delete()
        }
    }

    private static void stop(Process process) {
        List<ProcessHandle> all = process.descendants().iterator().collect() + [process.toHandle()]
        all.each { it.destroy() }
        if (!process.waitFor(2, TimeUnit.SECONDS)) { process.destroyForcibly() }
        all.findAll { it.alive }.each { it.destroyForcibly() }
    }
}

/** The files of a workspace and of the repository that is built. */
class Source {
    Build build

    /** Bring the source into the workspace, a clone of HEAD; return the variables that Jenkins sets then. */
    Map<String, String> checkout() {
        File target = build.context.workspace
        String path = build.run.source
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
class Glob {
    static final String DEFAULT_EXCLUDES = ',**/.git/**,**/.gitignore,**/.gitattributes,**/.gitmodules,**/*~,**/#*#,**/.DS_Store'

    static boolean matches(String pattern, String path) { matcher(pattern).matches(Paths.get(path)) }

    /** Return the files under `folder` that match a comma-separated list of patterns, sorted. */
    static List<String> files(File folder, String includes, String excludes = '') {
        List<PathMatcher> wanted = matchers(includes), unwanted = matchers(excludes)
        List<String> found = []
        if (!folder.directory) { return found }
        folder.eachFileRecurse(FileType.FILES) { File file ->
            Path path = folder.toPath().relativize(file.toPath())
            if (wanted.any { it.matches(path) } && !unwanted.any { it.matches(path) }) { found << path.toString() }
        }
        found.sort()
    }

    private static List<PathMatcher> matchers(String list) { (list.tokenize(',')*.trim() - '').collect { matcher(it) } }

    private static PathMatcher matcher(String glob) {
        String text = glob.endsWith('/') ? glob + '**' : glob
        FileSystems.default.getPathMatcher('glob:' + text.replace('**/', '{**/,}')) // in Java's, **/ is one folder at least
    }
}
