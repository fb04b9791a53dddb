package jenkinsfile

import groovy.json.JsonOutput
import groovy.json.JsonSlurperClassic
import java.nio.file.Files
import java.nio.file.StandardCopyOption

/** Steps on the files of a workspace. */
class FileSteps {
    private final Build build

    FileSteps(Build build) { this.build = build }

    void stash(Map given) {
        boolean defaults = given.containsKey('useDefaultExcludes') ? given.useDefaultExcludes : true
        List<String> found = Glob.files(here(), given.includes as String ?: '**', given.excludes as String, defaults)
        if (!found && !given.allowEmpty) { throw new StepFailure("No files included in stash '${given.name}'") }
        File target = stashFolder(given.name as String)
        target.deleteDir()
        target.mkdirs()
        copy(found, here(), target)
        build.event('stash', name: given.name as String, files: found)
        build.say("Stashed ${found.size()} file(s)")
    }

    void stash(CharSequence name) { stash([name: name]) }

    void unstash(Map given) { unstash(given.name as String) }

    void unstash(CharSequence name) {
        File folder = stashFolder(name as String)
        File target = here()
        if (!folder.directory) { throw new StepFailure("No such saved stash '${name}'") }
        List<String> found = Glob.files(folder, '**', null, false)
        copy(found, folder, target)
        build.event('unstash', name: name as String, files: found)
    }

    void archiveArtifacts(CharSequence artifacts) { archiveArtifacts([artifacts: artifacts]) }

    void archiveArtifacts(Map given) {
        boolean defaults = given.containsKey('defaultExcludes') ? given.defaultExcludes : true
        if (given.onlyIfSuccessful && build.currentResult() != 'SUCCESS') { return }
        List<String> found = Glob.files(here(), given.artifacts as String, given.excludes as String, defaults)
        if (!found && !given.allowEmptyArchive) {
            throw new StepFailure("No artifacts found that match the file pattern \"${given.artifacts}\". " +
                                  'Configuration error?')
        }
        copy(found, here(), new File(build.workdir, 'archive'))
        build.event('archiveArtifacts', files: found)
    }

    Map checkout(Object source) {
        if (source != 'scm') { throw new StepFailure('checkout: only `checkout scm` can be run here') }
        checkoutSource(null)
    }

    /** Bring the source into the workspace and return the variables that Jenkins sets then. */
    Map<String, String> checkoutSource(String subfolder) {
        File target = subfolder ? new File(here(), subfolder) : here()
        target.mkdirs()
        Map<String, String> found = [:]
        if (new File(build.source, '.git').exists()) {
            String path = build.source.path
            git(target, 'init', '--quiet')
            git(target, 'fetch', '--quiet', '--tags', '--update-head-ok', path, 'HEAD')
            git(target, 'checkout', '--quiet', '--force', '--detach', 'FETCH_HEAD')
            git(target, 'config', 'remote.origin.url', path)
            found = [GIT_COMMIT: git(target, 'rev-parse', 'HEAD'), GIT_URL: path]
            if (build.variable('BRANCH_NAME')) { found.GIT_BRANCH = build.variable('BRANCH_NAME') }
        } else {
            copy(Glob.files(build.source, '**', null, false), build.source, target)
        }
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

    void deleteDir() {
        File folder = here()
        folder.deleteDir()
        folder.mkdirs()
        build.event('deleteDir', path: folder.path)
    }

    void cleanWs(Map given = [:]) {
        if (!build.context.workspace) { throw new StepFailure(needsNode('cleanWs')) }
        build.context.workspace.deleteDir()
        build.context.workspace.mkdirs()
        build.event('cleanWs', path: build.context.workspace.path)
    }

    Object dir(CharSequence path, Closure body) {
        File folder = at(path)
        folder.mkdirs()
        build.within({ it.directory = folder }, body)
    }

    boolean fileExists(CharSequence path) { at(path).exists() }

    boolean fileExists(Map given) { fileExists(given.file as String) }

    String readFile(CharSequence path) {
        File file = at(path)
        if (!file.file) { throw new StepFailure("java.nio.file.NoSuchFileException: ${file}") }
        file.getText('UTF-8')
    }

    String readFile(Map given) { readFile(given.file as String) }

    void writeFile(Map given) {
        File file = at(given.file as String)
        file.parentFile.mkdirs()
        file.setText(given.text as String, 'UTF-8')
        build.event('writeFile', file: given.file as String)
    }

    Object readJSON(Map given) {
        new JsonSlurperClassic().parseText(given.text == null ? readFile(given.file as String) : given.text as String)
    }

    Object writeJSON(Map given) {
        String text = JsonOutput.toJson(given.json)
        if (given.returnText) { return text }
        writeFile(file: given.file, text: given.pretty ? JsonOutput.prettyPrint(text) : text)
    }

    List<Map> findFiles(Map given = [:]) {
        Glob.files(here(), given.glob as String ?: '*', given.excludes as String, false).collect { path ->
            File file = at(path)
            [path: path, name: file.name, length: file.length(), directory: false]
        }
    }

    String pwd(Map given = [:]) { given.tmp ? build.context.allocation?.temporary?.path : here().path }

    boolean isUnix() { true }

    private File here() {
        File folder = build.context.directory
        if (!folder) { throw new StepFailure(needsNode('a step on files')) }
        folder
    }

    private File at(CharSequence path) {
        File given = new File(path as String)
        given.absolute ? given : new File(here(), path as String)
    }

    private static String needsNode(String step) {
        "Required context class hudson.FilePath is missing: ${step} needs an agent"
    }

    private File stashFolder(String name) { new File(build.workdir, "stash/${name.replaceAll(/[^\w.-]/, '_')}") }

    /** Copy files with their permissions; links stay links. */
    private static void copy(List<String> paths, File from, File to) {
        paths.each { String path ->
            File target = new File(to, path)
            target.parentFile.mkdirs()
            Files.copy(new File(from, path).toPath(), target.toPath(), StandardCopyOption.REPLACE_EXISTING,
                       StandardCopyOption.COPY_ATTRIBUTES, java.nio.file.LinkOption.NOFOLLOW_LINKS)
        }
    }
}
