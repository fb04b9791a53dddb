package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.MethodCallExpression

/** Checks stages, parallel stages and matrices. */
@CompileStatic
class StageChecker {
    private final Checker checker
    private final DirectiveChecker directives
    private final StepChecker steps

    StageChecker(Checker checker, DirectiveChecker directives) {
        this.checker = checker
        this.directives = directives
        this.steps = new StepChecker(checker)
    }

    /** forked: already inside of parallel or matrix, where neither may come again. */
    void stages(MethodCallExpression section, boolean forked) {
        String kind = Syntax.name(section)
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> found = checker.calls(body, kind, false, "only stage('...') { ... } may stand there")
        if (!found) { checker.report(section, "'${kind}' has no stage", "add stage('...') { ... }") }
        Set<String> seen = new HashSet<String>()
        found.each { MethodCallExpression one ->
            if (Syntax.name(one) != 'stage') {
                checker.report(one, "'${Syntax.name(one)}' in ${kind} is no stage", "write stage('...') { ... }")
                return
            }
            String name = stage(one, forked)
            if (name != null && !seen.add(name)) {
                checker.report(one, "two stages are named '${name}' in this ${kind}", 'give each a name of its own')
            }
        }
    }

    private String stage(MethodCallExpression call, boolean forked) {
        List<Expression> plain = Syntax.plain(call)
        String name = plain ? Syntax.constant(plain[0]) as String : null
        if (!plain || !Syntax.isConstant(plain[0], String)) {
            checker.report(call, plain ? 'the name of a stage is not a plain string' : 'a stage has no name',
                           "write stage('...') with a constant name")
        }
        checker.stages << new StageLine(name: name ?: '?', line: call.lineNumber)
        ClosureExpression body = checker.block(call)
        if (!body) { return name }
        List<MethodCallExpression> sections = checker.calls(
            body, "stage '${name}'", true, 'a section needs a value or a block; steps belong into steps { ... }')
        sections.each { MethodCallExpression one -> section(one, name, forked) }
        bodies(call, name, sections)
        name
    }

    private void section(MethodCallExpression section, String stage, boolean forked) {
        String name = Syntax.name(section)
        if (!(name in Catalog.STAGE)) {
            checker.unknown(section, "'${name}' is no section of a stage ('${stage}')", Catalog.STAGE)
            return
        }
        switch (name) {
            case 'steps': steps.section(section); break
            case 'stages': stages(section, forked); break
            case 'failFast': directives.flag(section); break
            case 'parallel':
                forbid(section, forked)
                stages(section, true)
                break
            case 'matrix':
                forbid(section, forked)
                matrix(section)
                break
            default: directives.check(section, true)
        }
    }

    private void forbid(MethodCallExpression section, boolean forked) {
        if (forked) {
            checker.report(section, "'${Syntax.name(section)}' is inside another parallel or matrix",
                           'use stages { ... } there: they cannot be nested')
        }
    }

    private void bodies(MethodCallExpression stage, String name, List<MethodCallExpression> sections) {
        List<String> names = sections.collect { MethodCallExpression one -> Syntax.name(one) }
        List<String> found = names.findAll { String one -> one in Catalog.BODIES }.unique()
        if (found.size() != 1) {
            checker.report(stage, "stage '${name}' has ${found ? found.join(' and ') : 'nothing to do'}",
                           "it needs exactly one of ${Catalog.BODIES.join(', ')}")
        }
        if (!found.any { String one -> one in ['parallel', 'matrix'] }) { return }
        sections.findAll { MethodCallExpression one -> Syntax.name(one) in ['agent', 'tools'] }
            .each { MethodCallExpression one ->
                checker.report(one, "'${Syntax.name(one)}' is not allowed in stage '${name}', which has parallel or matrix",
                               'put it into the stages inside')
            }
    }

    private void matrix(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> sections = checker.calls(body, 'matrix', true, 'a section needs a block')
        ['axes', 'stages'].each { String required ->
            if (!sections.any { MethodCallExpression one -> Syntax.name(one) == required }) {
                checker.report(section, "the matrix has no '${required}'", "add ${required} { ... }")
            }
        }
        sections.each { MethodCallExpression one ->
            String name = Syntax.name(one)
            if (!(name in Catalog.MATRIX)) {
                checker.unknown(one, "'${name}' is no section of a matrix", Catalog.MATRIX)
            } else if (name == 'stages') {
                stages(one, true)
            } else if (name == 'axes') {
                axes(one, false)
            } else if (name == 'excludes') {
                excludes(one)
            } else {
                directives.check(one, true)
            }
        }
    }

    private void excludes(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> found = checker.calls(body, 'excludes', false, 'only exclude { ... } may stand there')
        if (!found) { checker.report(section, "'excludes' is empty", 'add exclude { axis { ... } } or remove it') }
        found.each { MethodCallExpression one ->
            if (Syntax.name(one) == 'exclude') {
                axes(one, true)
            } else {
                checker.report(one, "'${Syntax.name(one)}' in excludes is no exclude", 'write exclude { axis { ... } }')
            }
        }
    }

    private void axes(MethodCallExpression section, boolean excluding) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        String kind = Syntax.name(section)
        List<MethodCallExpression> found = checker.calls(body, kind, false, 'only axis { ... } may stand there')
        if (!found) { checker.report(section, "'${kind}' has no axis", 'add axis { name ...; values ... }') }
        Set<String> seen = new HashSet<String>()
        found.each { MethodCallExpression one ->
            if (Syntax.name(one) != 'axis') {
                checker.report(one, "'${Syntax.name(one)}' in ${kind} is no axis", 'write axis { name ...; values ... }')
                return
            }
            String name = axis(one, excluding)
            if (name && !seen.add(name)) { checker.report(one, "the axis '${name}' is there twice", 'keep one of them') }
        }
    }

    private String axis(MethodCallExpression call, boolean excluding) {
        ClosureExpression body = checker.block(call)
        if (!body) { return null }
        Set<String> known = (excluding ? ['name', 'values', 'notValues'] : ['name', 'values']) as Set<String>
        List<MethodCallExpression> fields = checker.calls(body, 'axis', true, "write name '...' and values '...'")
        List<String> names = fields.collect { MethodCallExpression one -> Syntax.name(one) }
        String name = null
        fields.each { MethodCallExpression one ->
            if (!(Syntax.name(one) in known)) {
                checker.unknown(one, "'${Syntax.name(one)}' is no field of an axis", known)
            } else if (Syntax.name(one) == 'name') {
                name = axisName(one)
            } else {
                values(one)
            }
        }
        if (!('name' in names)) { checker.report(call, 'an axis has no name', "add name '...'") }
        int given = names.count { String one -> one in ['values', 'notValues'] } as int
        if (given != 1) {
            checker.report(call, given ? 'an axis has both values and notValues' : 'an axis has no values',
                           'give it one of them')
        }
        name
    }

    private String axisName(MethodCallExpression call) {
        List<Expression> plain = Syntax.plain(call)
        if (plain.size() != 1 || !Syntax.isConstant(plain[0], String)) {
            checker.report(call, 'the name of an axis is not a plain string', "write name '...' with a constant")
            return null
        }
        String name = Syntax.constant(plain[0])
        if (!(name ==~ DirectiveChecker.IDENTIFIER)) {
            checker.report(call, "'${name}' cannot name an environment variable, as an axis must",
                           'use letters, digits and underscores, and no digit first')
        }
        name
    }

    private void values(MethodCallExpression call) {
        List<Expression> plain = Syntax.plain(call)
        Set<Object> seen = new HashSet<Object>()
        if (!plain) { checker.report(call, "'${Syntax.name(call)}' is empty", 'give it at least one value') }
        plain.each { Expression one ->
            Object value = Syntax.constant(one)
            if (value == null) {
                checker.report(one, 'a value of an axis is not a constant', "write it out: values 'one', 'two'")
            } else if (!seen.add(value)) {
                checker.report(one, "the value '${value}' is there twice", 'keep one of them')
            }
        }
    }
}
