package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.ASTNode
import org.codehaus.groovy.ast.ModuleNode
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.ConstantExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.GStringExpression
import org.codehaus.groovy.ast.expr.MapEntryExpression
import org.codehaus.groovy.ast.expr.MapExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.expr.TupleExpression
import org.codehaus.groovy.ast.stmt.BlockStatement
import org.codehaus.groovy.ast.stmt.ExpressionStatement
import org.codehaus.groovy.ast.stmt.Statement
import org.codehaus.groovy.control.CompilationUnit
import org.codehaus.groovy.control.MultipleCompilationErrorsException
import org.codehaus.groovy.control.Phases
import org.codehaus.groovy.control.messages.Message
import org.codehaus.groovy.control.messages.SyntaxErrorMessage

/** Reads Groovy's syntax tree; nothing in it is resolved or run. */
@CompileStatic
class Syntax {
    /** Parse a file. Raises MultipleCompilationErrorsException. */
    static ModuleNode parse(String text) {
        CompilationUnit unit = new CompilationUnit()
        unit.addSource('Jenkinsfile', text)
        unit.compile(Phases.CONVERSION)
        (ModuleNode) unit.getAST().modules[0]
    }

    /** Return [line, message] of each syntax error. */
    static List<List> errors(MultipleCompilationErrorsException broken) {
        broken.errorCollector.errors.collect { Object one ->
            if (one instanceof SyntaxErrorMessage) {
                String said = ((SyntaxErrorMessage) one).cause.originalMessage
                return [((SyntaxErrorMessage) one).cause.line, said.readLines()[0]]
            }
            [1, String.valueOf(one)]
        } as List<List>
    }

    static List<Statement> statements(ClosureExpression block) { statements(block.code) }

    static List<Statement> statements(Statement code) {
        if (code instanceof BlockStatement) { return ((BlockStatement) code).statements }
        code == null ? new ArrayList<Statement>() : [code]
    }

    /** The call that a statement is, if it is nothing else. */
    static MethodCallExpression call(Statement statement) {
        if (!(statement instanceof ExpressionStatement)) { return null }
        Expression expression = ((ExpressionStatement) statement).expression
        expression instanceof MethodCallExpression ? (MethodCallExpression) expression : null
    }

    static String name(MethodCallExpression call) { call.methodAsString }

    static List<Expression> arguments(MethodCallExpression call) {
        call.arguments instanceof TupleExpression ? ((TupleExpression) call.arguments).expressions : [call.arguments]
    }

    /** The { } at the end of a call, or null. */
    static ClosureExpression block(MethodCallExpression call) {
        List<Expression> all = arguments(call)
        all && all.last() instanceof ClosureExpression ? (ClosureExpression) all.last() : null
    }

    /** The arguments with a name. */
    static List<MapEntryExpression> named(MethodCallExpression call) {
        List<Expression> all = arguments(call)
        if (all && all[0] instanceof MapExpression) { return ((MapExpression) all[0]).mapEntryExpressions }
        new ArrayList<MapEntryExpression>()
    }

    /** The arguments without a name, the block left out. */
    static List<Expression> plain(MethodCallExpression call) {
        arguments(call).findAll { Expression one -> !(one instanceof MapExpression) && !one.is(block(call)) }
    }

    static String key(MapEntryExpression entry) {
        entry.keyExpression instanceof ConstantExpression ? String.valueOf(((ConstantExpression) entry.keyExpression).value) : null
    }

    static boolean isConstant(ASTNode node, Class kind) {
        node instanceof ConstantExpression && kind.isInstance(((ConstantExpression) node).value)
    }

    static Object constant(ASTNode node) { node instanceof ConstantExpression ? ((ConstantExpression) node).value : null }

    static boolean isText(ASTNode node) { isConstant(node, String) || node instanceof GStringExpression }

    /** `${X}` without quotes is a call of a method named `$` for Groovy. */
    static boolean isBareDollar(ASTNode node) {
        node instanceof MethodCallExpression && name((MethodCallExpression) node) == '$'
    }
}
