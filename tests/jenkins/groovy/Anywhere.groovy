package jenkinsfile

import org.codehaus.groovy.ast.CodeVisitorSupport
import org.codehaus.groovy.ast.expr.*

/** Reports what is wrong wherever it stands in a Jenkinsfile. */
class Anywhere extends CodeVisitorSupport {
    Checker to
    private final List<PropertyExpression> used = []
    private List<String> declared

    void check(Object module) {
        module.statementBlock.visit(this)
        used.findAll { declared != null && !(it.propertyAsString in declared) }
            .each { to.unknown(it, 'name of a parameter', it.propertyAsString, declared ?: ['none']) }
    }

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
    void visitPropertyExpression(PropertyExpression property) {
        if (property.objectExpression.text == 'params') { used << property }
        super.visitPropertyExpression(property)
    }

    @Override
    void visitMethodCallExpression(MethodCallExpression call) {
        if (Syntax.name(call) == '$') { to.report(call, '${...} is used without quotes', 'write "${...}"') }
        if (Syntax.name(call) == 'parameters' && call.implicitThis && Syntax.block(call)) {
            declared = Syntax.statements(Syntax.block(call)).collect { Syntax.call(it) }.findAll().collect { one ->
                Syntax.constant(Syntax.named(one).find { Syntax.key(it) == 'name' }?.valueExpression)
            }
        }
        super.visitMethodCallExpression(call)
    }
}
