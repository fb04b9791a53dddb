package jenkinsfile

import groovy.json.JsonSlurperClassic
import java.util.concurrent.TimeUnit
import org.codehaus.groovy.ast.expr.*
import org.codehaus.groovy.ast.stmt.ExpressionStatement
import org.codehaus.groovy.syntax.Types

/** What the plugins define: the names of options, steps and so on, and of their parameters, with the types (definitions.json). */
class Definitions {
    static Map<String, Object> all

    static void read(File file) {
        all = new JsonSlurperClassic().parse(file)
        all.values().findAll { it instanceof Map }*.values().flatten().findAll { it instanceof Map }.each { one ->
            one.types = one.parameters.collectMany { type, names -> names.tokenize().collect { [it, type] } }.collectEntries()
        }
    }

    static Map<String, Map> of(String group) { all[group] }

    static List<String> leftOut(String kind) { (all['not run here'][kind] ?: '').tokenize() }
}

/** Checks the arguments of a call by its definition, as Jenkins' own validator does. */
class ArgumentChecker {
    Checker checker

    void check(MethodCallExpression call, Map definition, String kind) {
        String what = "the ${kind} ${Syntax.name(call)}"
        List named = Syntax.named(call), plain = Syntax.plain(call)
        Set<String> given = []
        named.each { entry ->
            String key = Syntax.key(entry)
            if (!given.add(key)) {
                checker.report(entry, "'${key}' is given twice to ${what}", 'keep one of them')
            } else if (!definition.types.containsKey(key)) {
                checker.unknown(entry, 'parameter', key, definition.types.keySet(), " of ${what}")
            } else {
                value(entry.valueExpression, definition.types[key], "'${key}' of ${what}")
            }
        }
        if (plain.size() > 1 || (plain && named)) {
            checker.report(call, "${what} has more than one value without a name", "name them: ${definition.types.keySet().join(', ')}")
        } else if (plain && !definition.alone) {
            checker.report(call, "${what} takes no value without a name", "name it: ${definition.types.keySet().join(', ') ?: 'there is none'}")
        } else if (plain) {
            value(plain[0], definition.types[definition.alone], "'${definition.alone}' of ${what}")
        } else {
            ((definition.required ?: '').tokenize() - given).each { String one ->
                checker.report(call, "the required parameter '${one}' of ${what} is missing", "write ${Syntax.name(call)}(${one}: ...)")
            }
        }
        if (Syntax.block(call) && !definition.block) {
            checker.report(call, "${what} has a block", "write ${Syntax.name(call)}(...) without one")
        } else if (definition.block && !Syntax.block(call)) {
            checker.report(call, "${what} has no block", "write ${Syntax.name(call)}(...) { ... }")
        }
    }

    private void value(Object given, String type, String what) {
        Object literal = Syntax.constant(given)
        if (given instanceof MethodCallExpression && given.implicitThis && (Syntax.block(given) || Syntax.name(given) == 'properties')) {
            checker.report(given, "${what} is the call ${Syntax.name(given)}", 'use a plain value')
        }
        switch (type) {
            case 'bindings':
                List either = given instanceof TernaryExpression ? [given.trueExpression, given.falseExpression] : [given]
                either.collectMany { it instanceof ListExpression ? it.expressions : [it] }.each { nested(it, type, what) }
                break
            case 'discarder': nested(given, type, what); break
            case 'String': refuse(given, literal instanceof Number || literal instanceof Boolean, what, 'a string'); break
            case ['int', 'long', 'double']:
                refuse(given, Syntax.isText(given) || literal instanceof Boolean, what, 'a number, without quotes')
                break
            case 'boolean':
                refuse(given, Syntax.isText(given) || literal instanceof Number, what, 'true or false, without quotes')
                break
            case 'TimeUnit':
                List<String> units = TimeUnit.values()*.name()
                refuse(given, literal != null && !(literal in units), what, "one of ${units.join(', ')}")
        }
    }

    private void refuse(Object given, boolean wrong, String what, String right) {
        if (wrong) { checker.report(given, "${what} is ${given.text}", "it must be ${right}") }
    }

    /** A value that is a definition of its own: logRotator(...), usernamePassword(...). */
    private void nested(Object given, String group, String what) {
        if (!(given instanceof MethodCallExpression)) {
            checker.report(given, "${what} is ${given.text}", "write ${Definitions.of(group).keySet().join('(...) or ')}(...)")
        } else if (Definitions.of(group).containsKey(Syntax.name(given))) {
            check(given, Definitions.of(group)[Syntax.name(given)], 'value')
        } else {
            checker.unknown(given, 'value', Syntax.name(given), Definitions.of(group).keySet(), " of ${what}")
        }
    }
}

/** The variables of an `environment` block: their names, once each, and values that are text. */
class Variables {
    Checker checker

    void check(ClosureExpression block) {
        Set<String> seen = []
        if (block && !Syntax.statements(block)) { checker.report(block, "'environment' is empty", "write NAME = '...'") }
        Syntax.statements(block).each { statement ->
            Object given = statement instanceof ExpressionStatement ? statement.expression : null
            if (!(given instanceof BinaryExpression && given.operation.type == Types.EQUAL)) {
                checker.report(statement, 'this is not a variable of the environment', "write NAME = '...'")
                return
            }
            String name = given.leftExpression instanceof VariableExpression ? given.leftExpression.text : null
            if (!(name ==~ Checker.IDENTIFIER)) {
                checker.report(given, "'${given.leftExpression.text}' cannot name a variable", 'use letters, digits and underscores')
            } else if (!seen.add(name)) {
                checker.report(given, "the variable '${name}' is set twice", 'keep one of them')
            }
            Object value = given.rightExpression
            if (value instanceof MethodCallExpression && Syntax.name(value) == 'credentials') {
                checker.report(value, "'credentials' is not run here", 'use withCredentials', 'not run here')
            } else if (!(value instanceof MethodCallExpression || fits(value))) {
                checker.report(value, 'a value of the environment is not a string', 'put it into "${...}"')
            }
        }
    }

    private static boolean fits(Object value) {
        boolean sum = value instanceof BinaryExpression && value.operation.type == Types.PLUS
        sum ? fits(value.leftExpression) && fits(value.rightExpression) : Syntax.isText(value) || value instanceof ConstantExpression
    }
}
