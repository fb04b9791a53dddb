package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.MapEntryExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression

/** Checks options, parameters and triggers: lists of definitions without blocks. */
@CompileStatic
class DefinitionChecker {
    private static final Map<String, String> ALIASES = [stringParam: 'string', choiceParam: 'choice', textParam: 'text',
        passwordParam: 'password', fileParam: 'file', runParam: 'run', nonStoredPasswordParam: 'password']
    private final Checker checker

    DefinitionChecker(Checker checker) { this.checker = checker }

    void options(MethodCallExpression section, boolean inStage) {
        Set<String> known = inStage ? Catalog.STAGE_OPTIONS : Catalog.OPTIONS
        definitions(section, true).each { MethodCallExpression one ->
            String name = Syntax.name(one)
            if (name in ['parameters', 'triggers']) {
                checker.report(one, "'${name}' is no option", "write the section ${name} { ... } beside options")
            } else if (inStage && name in Catalog.OPTIONS && !(name in known)) {
                checker.report(one, "the option '${name}' is not allowed in a stage", 'put it into the options of the pipeline')
            } else if (!(name in known)) {
                checker.unknown(one, "'${name}' is no option", known)
            } else if (name in StepSignatures.ALL.keySet()) {
                new StepChecker(checker).arguments(one)
            }
        }
    }

    void parameters(MethodCallExpression section) {
        definitions(section, false).each { MethodCallExpression one ->
            String name = ALIASES[Syntax.name(one)] ?: Syntax.name(one)
            if (!Catalog.PARAMETERS.containsKey(name)) {
                checker.unknown(one, "'${name}' is no type of parameter", Catalog.PARAMETERS.keySet())
            } else {
                parameter(one, Catalog.PARAMETERS[name])
            }
        }
    }

    private void parameter(MethodCallExpression call, Set<String> known) {
        List<MapEntryExpression> named = Syntax.named(call)
        String example = "write ${Syntax.name(call)}(name: '...', ...)"
        if (Syntax.plain(call)) {
            checker.report(call, 'a parameter has a value without a name', example)
        }
        named.each { MapEntryExpression one ->
            String key = Syntax.key(one)
            if (!(key in known)) {
                checker.unknown(one, "'${key}' is no setting of the parameter type ${Syntax.name(call)}", known)
            } else if (key in ['name', 'description'] && !Syntax.isText(one.valueExpression) &&
                       Syntax.constant(one.valueExpression) != null) {
                checker.report(one, "'${key}' of a parameter is ${one.valueExpression.text}, not a string",
                               "write ${key}: '...'")
            }
        }
        if (!Syntax.plain(call) && !named.any { MapEntryExpression one -> Syntax.key(one) == 'name' }) {
            checker.report(call, 'a parameter has no name', example)
        }
    }

    void triggers(MethodCallExpression section) {
        definitions(section, true).each { MethodCallExpression one ->
            String name = Syntax.name(one)
            if (!Catalog.TRIGGERS.containsKey(name)) {
                checker.unknown(one, "'${name}' is no trigger", Catalog.TRIGGERS.keySet())
                return
            }
            Set<String> known = Catalog.TRIGGERS[name]
            Syntax.named(one).each { MapEntryExpression entry ->
                if (!(Syntax.key(entry) in known)) {
                    checker.unknown(entry, "'${Syntax.key(entry)}' is no setting of the trigger ${name}", known)
                }
            }
            if (known && Syntax.arguments(one).size() != 1) {
                checker.report(one, "the trigger '${name}' needs exactly one value", "write ${name}('...')")
            } else if (known) {
                schedule(one)
            }
        }
    }

    private void schedule(MethodCallExpression trigger) {
        Expression given = Syntax.arguments(trigger)[0]
        if (!(Syntax.name(trigger) in ['cron', 'pollSCM']) || !Syntax.isConstant(given, String)) { return }
        (Syntax.constant(given) as String).readLines()*.trim().each { String line ->
            if (!line || line.startsWith('#') || line.startsWith('TZ=') || line ==~ /@\w+/) { return }
            if (line.tokenize().size() != 5) {
                checker.report(given, "'${line}' has ${line.tokenize().size()} fields", "cron takes 5, e.g. 'H 3 * * *'")
            }
        }
    }

    private List<MethodCallExpression> definitions(MethodCallExpression section, boolean unique) {
        String kind = Syntax.name(section)
        ClosureExpression body = checker.block(section)
        if (!body) { return [] }
        List<MethodCallExpression> found = checker.calls(body, kind, unique, 'write name(...)')
        if (!Syntax.statements(body)) { checker.report(section, "'${kind}' is empty", 'add a definition or remove it') }
        found.findAll { MethodCallExpression one -> acceptable(one, kind) }
    }

    private boolean acceptable(MethodCallExpression call, String kind) {
        if (Syntax.block(call)) {
            checker.report(call, "'${Syntax.name(call)}' in ${kind} has a block", "write ${Syntax.name(call)}(...) without one")
            return false
        }
        List<Expression> calls = Syntax.plain(call).findAll { Expression one -> one instanceof MethodCallExpression }
        boolean good = true
        calls.each { Expression one ->
            MethodCallExpression inner = (MethodCallExpression) one
            if (Syntax.name(inner) in StepChecker.BLOCKED || (inner.implicitThis && Syntax.block(inner))) {
                checker.report(one, "'${Syntax.name(inner)}' cannot be a value in ${kind}", 'use a plain value')
                good = false
            }
        }
        good
    }
}
