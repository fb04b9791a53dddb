package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.expr.BinaryExpression
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.expr.VariableExpression
import org.codehaus.groovy.ast.stmt.ExpressionStatement
import org.codehaus.groovy.ast.stmt.Statement
import org.codehaus.groovy.syntax.Types

/** Checks the sections that a pipeline and its stages share. */
@CompileStatic
class DirectiveChecker {
    static final String IDENTIFIER = '[A-Za-z_][A-Za-z0-9_]*'
    private final Checker checker
    private final StepChecker steps
    private final WhenChecker conditions
    private final DefinitionChecker definitions

    DirectiveChecker(Checker checker) {
        this.checker = checker
        this.steps = new StepChecker(checker)
        this.conditions = new WhenChecker(checker)
        this.definitions = new DefinitionChecker(checker)
    }

    void check(MethodCallExpression section, boolean inStage) {
        switch (Syntax.name(section)) {
            case 'agent': agent(section); break
            case 'environment': environment(section); break
            case 'post': post(section); break
            case 'tools': tools(section); break
            case 'libraries': libraries(section); break
            case 'input': input(section); break
            case 'when': conditions.section(section); break
            case 'options': definitions.options(section, inStage); break
            case 'parameters': definitions.parameters(section); break
            case 'triggers': definitions.triggers(section); break
        }
    }

    /** A section such as failFast, whose value is true or false. */
    void flag(MethodCallExpression call) {
        List<Expression> given = Syntax.arguments(call)
        if (given.size() != 1 || !Syntax.isConstant(given[0], Boolean)) {
            checker.report(call, "'${Syntax.name(call)}' is neither true nor false", "write ${Syntax.name(call)} true")
        }
    }

    private void agent(MethodCallExpression section) {
        ClosureExpression body = Syntax.block(section)
        List<Expression> given = Syntax.arguments(section)
        if (body == null) {
            boolean bare = given.size() == 1 && given[0] instanceof VariableExpression &&
                ((VariableExpression) given[0]).name in ['any', 'none']
            if (!bare) { checker.report(section, 'this is no agent', 'write agent any, agent none or agent { ... }') }
            return
        }
        List<Statement> statements = Syntax.statements(body)
        if (statements.size() != 1) {
            checker.report(section, statements ? 'an agent has more than one type' : 'an agent has no type',
                           "give it one of ${Catalog.AGENTS.keySet().join(', ')}")
        }
        statements.each { Statement one -> agentType(one) }
    }

    private void agentType(Statement statement) {
        MethodCallExpression type = Syntax.call(statement)
        if (type == null) {
            boolean bare = statement instanceof ExpressionStatement &&
                ((ExpressionStatement) statement).expression instanceof VariableExpression &&
                ((ExpressionStatement) statement).expression.text in ['any', 'none', 'dockerfile']
            if (!bare) { checker.report(statement, 'this is no type of agent', "write label '...' or docker { ... }") }
            return
        }
        String name = Syntax.name(type)
        if (!Catalog.AGENTS.containsKey(name)) {
            checker.unknown(type, "'${name}' is no type of agent", Catalog.AGENTS.keySet())
            return
        }
        ClosureExpression body = Syntax.block(type)
        if (!Syntax.arguments(type)) { checker.report(type, "agent '${name}' has no value", "write ${name} '...'") }
        if (!body || name == 'kubernetes') { return }
        Set<String> known = Catalog.AGENTS[name]
        List<MethodCallExpression> fields = checker.calls(body, "agent ${name}", true, "write lines such as label '...'")
        fields.each { MethodCallExpression field ->
            if (!(Syntax.name(field) in known)) {
                checker.unknown(field, "'${Syntax.name(field)}' is no setting of the agent ${name}", known)
            } else if (Syntax.arguments(field).size() != 1) {
                checker.report(field, "'${Syntax.name(field)}' needs exactly one value", "write ${Syntax.name(field)} '...'")
            }
        }
        String required = name == 'docker' ? 'image' : name == 'node' ? 'label' : null
        if (required && !fields.any { MethodCallExpression field -> Syntax.name(field) == required }) {
            checker.report(type, "the agent ${name} has no ${required}", "add ${required} '...'")
        }
    }

    private void environment(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        Set<String> seen = new HashSet<String>()
        if (!Syntax.statements(body)) { checker.report(section, "'environment' is empty", "add NAME = '...' or remove it") }
        Syntax.statements(body).each { Statement statement ->
            Expression given = statement instanceof ExpressionStatement ? ((ExpressionStatement) statement).expression : null
            if (!(given instanceof BinaryExpression) || ((BinaryExpression) given).operation.type != Types.EQUAL) {
                checker.report(statement, 'this is no variable of the environment', "write NAME = '...'")
                return
            }
            Expression left = ((BinaryExpression) given).leftExpression
            String name = left instanceof VariableExpression ? left.text : null
            if (!(name ==~ IDENTIFIER)) {
                checker.report(left, "'${left.text}' cannot name an environment variable",
                               'use letters, digits and underscores, and no digit first')
            } else if (!seen.add(name)) {
                checker.report(left, "the variable '${name}' is set twice", 'keep one of them')
            }
            value(((BinaryExpression) given).rightExpression)
        }
    }

    private void value(Expression value) {
        if (value instanceof BinaryExpression) {
            if (((BinaryExpression) value).operation.type != Types.PLUS) {
                checker.report(value, 'only + may join values of the environment', 'use a "..." string instead')
                return
            }
            Expression left = ((BinaryExpression) value).leftExpression
            if (left instanceof BinaryExpression) { this.value(left) } else { joined(left) }
            joined(((BinaryExpression) value).rightExpression)
        } else if (!Syntax.isConstant(value, Object) && !Syntax.isText(value) && !(value instanceof MethodCallExpression)) {
            checker.report(value, 'a value of the environment is no string and no call', 'put it into "${...}"')
        }
    }

    private void joined(Expression value) {
        if (!Syntax.isConstant(value, Object) && !Syntax.isText(value)) {
            checker.report(value, 'only strings can be joined in the environment', 'use one "..." string instead')
        }
    }

    private void post(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> found = checker.calls(
            body, 'post', true, "only conditions such as always { ... } may stand there")
        if (!found) { checker.report(section, "'post' is empty", 'add always { ... } or remove it') }
        found.each { MethodCallExpression one ->
            if (!(Syntax.name(one) in Catalog.POST)) {
                checker.unknown(one, "'${Syntax.name(one)}' is no condition of post", Catalog.POST)
            } else {
                steps.section(one)
            }
        }
    }

    private void tools(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> found = checker.calls(body, 'tools', false, "write maven '...'")
        if (!Syntax.statements(body)) { checker.report(section, "'tools' is empty", "add maven '...' or remove it") }
        found.each { MethodCallExpression one ->
            String name = Syntax.name(one)
            if (!(name in Catalog.TOOLS) && !name.contains('.')) {
                checker.unknown(one, "'${name}' is no type of tool", Catalog.TOOLS)
            } else if (Syntax.arguments(one).size() != 1) {
                checker.report(one, "the tool '${name}' needs exactly one version", "write ${name} '...'")
            }
        }
    }

    private void libraries(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> found = checker.calls(body, 'libraries', false, "write lib('name@version')")
        if (!Syntax.statements(body)) { checker.report(section, "'libraries' is empty", "add lib('...') or remove it") }
        found.each { MethodCallExpression one ->
            if (Syntax.name(one) != 'lib' || Syntax.plain(one).size() != 1 || Syntax.block(one)) {
                checker.report(one, "'${Syntax.name(one)}' in libraries is no library", "write lib('name@version')")
            }
        }
    }

    private void input(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<MethodCallExpression> fields = checker.calls(body, 'input', true, "write message '...'")
        if (!fields.any { MethodCallExpression one -> Syntax.name(one) == 'message' }) {
            checker.report(section, 'an input has no message', "add message '...'")
        }
        fields.each { MethodCallExpression one ->
            String name = Syntax.name(one)
            if (!(name in Catalog.INPUT)) {
                checker.unknown(one, "'${name}' is no field of an input", Catalog.INPUT)
            } else if (name == 'parameters') {
                definitions.parameters(one)
            } else if (Syntax.arguments(one).size() != 1) {
                checker.report(one, "'${name}' needs exactly one value", "write ${name} '...'")
            }
        }
    }
}
