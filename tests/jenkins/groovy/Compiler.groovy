package jenkinsfile

import org.codehaus.groovy.ast.ClassNode
import org.codehaus.groovy.ast.CodeVisitorSupport
import org.codehaus.groovy.ast.MethodNode
import org.codehaus.groovy.ast.expr.ConstantExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.classgen.GeneratorContext
import org.codehaus.groovy.control.CompilePhase
import org.codehaus.groovy.control.CompilerConfiguration
import org.codehaus.groovy.control.SourceUnit
import org.codehaus.groovy.control.customizers.CompilationCustomizer

/** Compiles a Jenkinsfile to a script whose names Jenkins' rules resolve. */
class Compiler {
    static final String SCRIPT = 'Jenkinsfile.groovy'

    static PipelineScript compile(String text) {
        CompilerConfiguration configuration = new CompilerConfiguration(scriptBaseClass: PipelineScript.name)
        configuration.addCompilationCustomizers(new StepNames())
        (PipelineScript) new GroovyShell(Compiler.classLoader, new Binding(), configuration).parse(text, SCRIPT)
    }
}

/** Renames calls that Groovy would answer itself, on every object, before any step is asked. */
class StepNames extends CompilationCustomizer {
    static final Map<String, String> NAMES = [sleep: 'sleepStep', println: 'printlnStep', print: 'printStep',
                                              equals: 'equalsCondition']

    StepNames() { super(CompilePhase.CONVERSION) }

    @Override
    void call(SourceUnit source, GeneratorContext context, ClassNode node) {
        CodeVisitorSupport visitor = new CodeVisitorSupport() {
            @Override
            void visitMethodCallExpression(MethodCallExpression call) {
                if (call.implicitThis && NAMES.containsKey(call.methodAsString)) {
                    call.method = new ConstantExpression(NAMES[call.methodAsString])
                }
                super.visitMethodCallExpression(call)
            }
        }
        source.AST.statementBlock.visit(visitor)
        source.AST.methods.each { MethodNode method -> method.code?.visit(visitor) }
    }
}
