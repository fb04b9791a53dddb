package jenkinsfile

import groovy.io.FileType
import groovy.transform.CompileStatic
import java.util.regex.Pattern

/** Ant's file patterns: ? and * within a name, ** across folders. */
@CompileStatic
class Glob {
    static final List<String> DEFAULT_EXCLUDES = ['**/.git', '**/.git/**', '**/.gitignore', '**/.gitattributes',
                                                  '**/.gitmodules', '**/*~', '**/#*#', '**/.DS_Store', '**/.svn/**']

    static boolean matches(String pattern, String path, boolean caseSensitive) {
        caseSensitive ? path ==~ expression(pattern) : path.toLowerCase() ==~ expression(pattern.toLowerCase())
    }

    /** Return the files under `folder` that match a comma-separated list of patterns, sorted. */
    static List<String> files(File folder, String includes, String excludes = null, boolean defaultExcludes = true) {
        List<Pattern> wanted = expressions(includes)
        List<Pattern> unwanted = expressions(excludes)
        if (defaultExcludes) { unwanted.addAll(DEFAULT_EXCLUDES.collect { String glob -> expression(glob) }) }
        List<String> found = []
        if (!folder.directory) { return found }
        folder.eachFileRecurse(FileType.FILES) { File file ->
            String path = folder.toPath().relativize(file.toPath()).toString()
            boolean taken = wanted.any { Pattern one -> one.matcher(path).matches() }
            if (taken && !unwanted.any { Pattern one -> one.matcher(path).matches() }) { found << path }
        }
        found.sort()
    }

    private static List<Pattern> expressions(String list) {
        (list ?: '').tokenize(',')*.trim().findAll { String glob -> glob }.collect { String glob -> expression(glob) }
    }

    private static Pattern expression(String glob) {
        String text = glob.startsWith('./') ? glob.substring(2) : glob
        if (text.endsWith('/')) { text += '**' }
        StringBuilder regex = new StringBuilder()
        int at = 0
        while (at < text.length()) {
            if (text.startsWith('**/', at)) {
                regex.append('(?:.*/)?')
                at += 3
            } else if (text.startsWith('/**', at) && at + 3 == text.length()) {
                regex.append('(?:/.*)?')
                at += 3
            } else if (text.startsWith('**', at)) {
                regex.append('.*')
                at += 2
            } else {
                char letter = text.charAt(at)
                regex.append(letter == ('*' as char) ? '[^/]*' : letter == ('?' as char) ? '[^/]' :
                             Pattern.quote(letter.toString()))
                at += 1
            }
        }
        Pattern.compile(regex.toString())
    }
}
