package jenkinsfile

import org.codehaus.groovy.ast.CodeVisitorSupport
import org.codehaus.groovy.ast.expr.ConstantExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.expr.PropertyExpression
import org.codehaus.groovy.ast.expr.VariableExpression

/** What is wrong wherever it stands in a Jenkinsfile. */
class Anywhere {
    final Checker checker

    Anywhere(Checker checker) { this.checker = checker }

    /** Report every params.X of a pipeline that declares parameters, but not X. */
    void parameters(MethodCallExpression pipeline) {
        Checker to = checker
        List<String> declared = []
        boolean any = false
        List<PropertyExpression> used = []
        pipeline.arguments.visit(new CodeVisitorSupport() {
            @Override
            void visitMethodCallExpression(MethodCallExpression call) {
                if (Syntax.name(call) == 'parameters' && call.implicitThis && Syntax.block(call)) {
                    any = true
                    Syntax.statements(Syntax.block(call)).collect { Syntax.call(it) }.findAll().each { one ->
                        declared << Syntax.constant(Syntax.named(one).find { Syntax.key(it) == 'name' }?.valueExpression)
                    }
                }
                super.visitMethodCallExpression(call)
            }

            @Override
            void visitPropertyExpression(PropertyExpression property) {
                if (property.objectExpression.text == 'params') { used << property }
                super.visitPropertyExpression(property)
            }
        })
        used.findAll { any && !(it.propertyAsString in declared) }
            .each { to.unknown(it, 'name of a parameter', it.propertyAsString, declared ?: ['none']) }
    }

    /** Report constants that no Jenkinsfile can have, wherever they are. */
    void constants(Object module) {
        Checker to = checker
        module.statementBlock.visit(new CodeVisitorSupport() {
            @Override
            void visitConstantExpression(ConstantExpression constant) {
                if (constant.value instanceof BigInteger) { to.report(constant, "${constant.value} is too big", 'use a smaller number') }
            }

            @Override
            void visitVariableExpression(VariableExpression variable) {
                if (variable.name in ['System', 'Jenkins', 'Hudson', 'Runtime', 'Thread']) {
                    to.report(variable, "'${variable.name}' is refused by the sandbox", 'use a step, or env')
                }
            }

            @Override
            void visitMethodCallExpression(MethodCallExpression call) {
                if (Syntax.name(call) == '$') { to.report(call, '${...} is used without quotes', 'write "${...}"') }
                super.visitMethodCallExpression(call)
            }
        })
    }
}

/** Levenshtein's distance between two names. */
class Distance {
    static int of(String one, String other) {
        List<Integer> before = (0..other.length())
        one.eachWithIndex { letter, i ->
            List<Integer> now = [i + 1]
            other.eachWithIndex { second, j -> now << [before[j + 1] + 1, now[j] + 1, before[j] + (letter == second ? 0 : 1)].min() }
            before = now
        }
        before.last()
    }
}
