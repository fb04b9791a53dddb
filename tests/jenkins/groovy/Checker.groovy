package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.ASTNode
import org.codehaus.groovy.ast.ModuleNode
import org.codehaus.groovy.ast.MethodNode
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.stmt.Statement
import org.codehaus.groovy.control.MultipleCompilationErrorsException

/** A stage as the check met it. */
@CompileStatic
class StageLine {
    String name
    int line
}

/** The static check of one Jenkinsfile: the structure of its `pipeline` block. */
@CompileStatic
class Checker {
    final String file
    final List<Problem> problems = []
    /** In the order of the file. */
    final List<StageLine> stages = []
    private final DirectiveChecker directives = new DirectiveChecker(this)
    private final StageChecker stageChecker = new StageChecker(this, directives)

    Checker(String file) { this.file = file }

    static Checker of(File file) {
        if (!file.file) { throw new UsageError("${file}: no such file") }
        Checker checker = new Checker(file.path)
        try {
            checker.module(Syntax.parse(file.getText('UTF-8')))
        } catch (MultipleCompilationErrorsException broken) {
            checker.problems.addAll(Problem.syntax(file.path, broken))
        }
        checker.problems.sort { Problem one -> one.line }
        checker
    }

    void report(ASTNode at, String what, String right = '') {
        problems << new Problem(file: file, line: Math.max(at.lineNumber, 1), what: what, right: right)
    }

    /** Report a name that does not belong there, with the nearest that does. */
    void unknown(ASTNode at, String what, Collection<String> known) {
        String nearest = known.min { String one -> Distance.of(one, what.find(/'(.*)'/) { List<String> m -> m[1] } ?: '') }
        report(at, what, "did you mean '${nearest}'? There are ${known.toList().toSorted().join(', ')}")
    }

    /** Return the calls in a block; report whatever else stands there, and names that stand there twice. */
    List<MethodCallExpression> calls(ClosureExpression block, String where, boolean unique, String right) {
        List<MethodCallExpression> found = []
        Set<String> seen = new HashSet<String>()
        Syntax.statements(block).each { Statement statement ->
            MethodCallExpression call = Syntax.call(statement)
            if (call == null || !call.implicitThis || Syntax.name(call) == null) {
                boolean chained = call != null && call.objectExpression instanceof MethodCallExpression
                report(statement, chained ? "'${Syntax.name(call)}' in ${where} follows another definition on its line" :
                       "something in ${where} is no definition", chained ? 'put each on a line of its own' : right)
            } else {
                if (unique && !seen.add(Syntax.name(call))) {
                    report(call, "'${Syntax.name(call)}' is there twice in ${where}", 'keep one of them')
                }
                found << call
            }
        }
        found
    }

    /** Return the block of a section. Without one, report that. */
    ClosureExpression block(MethodCallExpression call) {
        ClosureExpression found = Syntax.block(call)
        String name = Syntax.name(call)
        if (found == null) { report(call, "'${name}' has no block", "write ${name} { ... }") }
        found
    }

    private void module(ModuleNode module) {
        List<MethodCallExpression> found = module.statementBlock.statements.collect { Statement one -> Syntax.call(one) }
            .findAll { MethodCallExpression one -> one != null }
        List<MethodCallExpression> pipelines = found.findAll { MethodCallExpression one -> Syntax.name(one) == 'pipeline' }
        MethodNode library = module.methods.find { MethodNode one -> one.name == 'call' }
        if (pipelines) {
            new ConstantChecker(this).visit(module)
            pipelines.tail().each { MethodCallExpression one -> report(one, 'a second pipeline block', 'keep one') }
            pipeline(pipelines[0])
            return
        }
        if (library) {
            Syntax.statements(library.code).collect { Statement one -> Syntax.call(one) }
                .findAll { MethodCallExpression one -> one != null && Syntax.name(one) == 'pipeline' }
                .each { MethodCallExpression one -> pipeline(one) }
            return
        }
        MethodCallExpression inside = found.collect { MethodCallExpression one -> nested(one) }.find { it != null }
        if (inside) {
            report(inside, "'pipeline' is inside another block", 'put pipeline { ... } at the top level')
        } else {
            report(module.statementBlock, 'there is no pipeline block', 'write pipeline { agent ...; stages { ... } }')
        }
    }

    private static MethodCallExpression nested(MethodCallExpression call) {
        if (Syntax.name(call) == 'pipeline') { return call }
        ClosureExpression block = Syntax.block(call)
        if (block == null) { return null }
        for (Statement statement : Syntax.statements(block)) {
            MethodCallExpression inner = Syntax.call(statement)
            MethodCallExpression found = inner == null ? null : nested(inner)
            if (found != null) { return found }
        }
        null
    }

    private void pipeline(MethodCallExpression call) {
        ClosureExpression body = block(call)
        if (!body) { return }
        List<MethodCallExpression> sections = calls(body, 'pipeline', true, "a section needs a value or a block")
        sections.each { MethodCallExpression one -> section(one) }
        new NameChecker(this).parameters(call)
        ['agent', 'stages'].each { String required ->
            if (!sections.any { MethodCallExpression one -> Syntax.name(one) == required }) {
                report(call, "the required section '${required}' is missing",
                       required == 'agent' ? 'add agent any, agent none or agent { ... }' : 'add stages { stage(...) }')
            }
        }
    }

    private void section(MethodCallExpression section) {
        String name = Syntax.name(section)
        if (Catalog.RENAMED.containsKey(name)) {
            report(section, "there is no section '${name}' any more", "use '${Catalog.RENAMED[name]}'")
        } else if (!(name in Catalog.PIPELINE)) {
            unknown(section, "'${name}' is no section of a pipeline", Catalog.PIPELINE)
        } else if (name == 'stages') {
            stageChecker.stages(section, false)
        } else {
            directives.check(section, false)
        }
    }
}

/** Levenshtein's distance between two names. */
@CompileStatic
class Distance {
    static int of(String one, String other) {
        int[] before = (0..other.length()) as int[]
        for (int i = 1; i <= one.length(); i++) {
            int[] now = new int[other.length() + 1]
            now[0] = i
            for (int j = 1; j <= other.length(); j++) {
                int change = before[j - 1] + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1)
                now[j] = Math.min(Math.min(now[j - 1], before[j]) + 1, change)
            }
            before = now
        }
        before[other.length()]
    }
}
