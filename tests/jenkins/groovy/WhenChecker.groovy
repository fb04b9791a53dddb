package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.MapEntryExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression

/** Checks `when`. */
@CompileStatic
class WhenChecker {
    private final Checker checker

    WhenChecker(Checker checker) { this.checker = checker }

    void section(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> found = checker.calls(body, 'when', false, 'put it into expression { ... }')
        List<MethodCallExpression> moments = found.findAll { MethodCallExpression one ->
            Syntax.name(one) in Catalog.WHEN_MOMENTS }
        moments.each { MethodCallExpression one ->
            List<Expression> given = Syntax.arguments(one)
            if (given.size() != 1 || !Syntax.isConstant(given[0], Boolean)) {
                checker.report(one, "'${Syntax.name(one)}' is neither true nor false", "write ${Syntax.name(one)} true")
            }
        }
        if (found.size() == moments.size()) {
            checker.report(section, "'when' has no condition", "add branch 'main' or another, or remove it")
        }
        (found - moments).each { MethodCallExpression one -> condition(one) }
    }

    private void condition(MethodCallExpression call) {
        String name = Syntax.name(call)
        if (!Catalog.WHEN.containsKey(name)) {
            checker.unknown(call, "'${name}' is no condition of when", Catalog.WHEN.keySet())
        } else if (name in Catalog.WHEN_GROUPS) {
            group(call)
        } else if (name == 'expression') {
            if (!Syntax.block(call)) { checker.report(call, "'expression' has no block", 'write expression { ... }') }
        } else if (Syntax.block(call)) {
            checker.report(call, "'${name}' takes no block", "write ${name} '...'")
        } else {
            arguments(call)
        }
    }

    private void group(MethodCallExpression call) {
        String name = Syntax.name(call)
        ClosureExpression body = checker.block(call)
        if (!body) { return }
        if (Syntax.arguments(call).size() != 1) {
            checker.report(call, "'${name}' takes nothing but its block", "write ${name} { ... }")
        }
        List<MethodCallExpression> inside = checker.calls(body, name, false, 'put it into expression { ... }')
        if (name == 'not' ? inside.size() != 1 : !inside) {
            checker.report(call, "'${name}' has ${inside.size()} conditions",
                           name == 'not' ? 'it needs exactly one' : 'it needs at least one')
        }
        inside.each { MethodCallExpression one -> condition(one) }
    }

    private void arguments(MethodCallExpression call) {
        String name = Syntax.name(call)
        Set<String> known = Catalog.WHEN[name]
        List<MapEntryExpression> named = Syntax.named(call)
        List<Expression> plain = Syntax.plain(call)
        named.each { MapEntryExpression one ->
            if (!(Syntax.key(one) in known)) {
                checker.unknown(one, "'${Syntax.key(one)}' is no setting of the condition ${name}", known)
            }
        }
        (Catalog.WHEN_REQUIRED[name] ?: [] as Set<String>).each { String required ->
            if (!named.any { MapEntryExpression one -> Syntax.key(one) == required }) {
                checker.report(call, "the condition ${name} has no ${required}", "add ${required}: '...'")
            }
        }
        boolean bare = name in ['branch', 'tag', 'changeset', 'changelog', 'triggeredBy']
        if (plain.size() > 1 || (bare && !plain && !named && name != 'tag')) {
            checker.report(call, "the condition ${name} takes one value", "write ${name} '...'")
        }
        plain.each { Expression one ->
            if (Syntax.isConstant(one, Number) || Syntax.isConstant(one, Boolean)) {
                checker.report(one, "the condition ${name} takes a string, not ${one.text}", "write ${name} '...'")
            }
        }
    }
}
