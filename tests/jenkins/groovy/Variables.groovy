package jenkinsfile

import org.codehaus.groovy.ast.expr.BinaryExpression
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.ConstantExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.expr.VariableExpression
import org.codehaus.groovy.ast.stmt.ExpressionStatement
import org.codehaus.groovy.syntax.Types

/** The variables of an `environment` block: their names, once each, and values that are text. */
class Variables {
    private final Checker checker

    Variables(Checker checker) { this.checker = checker }

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
            joined(given.rightExpression, true)
        }
    }

    private void joined(Object value, boolean alone) {
        if (value instanceof BinaryExpression && value.operation.type == Types.PLUS) {
            [value.leftExpression, value.rightExpression].each { joined(it, false) }
        } else if (alone && value instanceof MethodCallExpression) {
            if (Syntax.name(value) == 'credentials') { checker.report(value, "'credentials' is not run here", 'use withCredentials', 'not run here') }
        } else if (!Syntax.isText(value) && !(value instanceof ConstantExpression)) {
            checker.report(value, 'a value of the environment is not a string', 'put it into "${...}"')
        }
    }
}
