package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.CodeVisitorSupport
import org.codehaus.groovy.ast.expr.MapEntryExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.expr.PropertyExpression
import org.codehaus.groovy.ast.expr.VariableExpression

/** Finds names that Jenkins would miss only while it runs: misspelled steps, and parameters that nobody declared. */
@CompileStatic
class NameChecker {
    /** Steps of Jenkins' own plugins and of those that nearly everyone has. Others pass, unless they look like one of these. */
    static final Set<String> STEPS = StepSignatures.ALL.keySet() + Catalog.WRAPPERS + (['archive', 'bat', 'build', 'checkout', 'echo',
        'emailext', 'fingerprint', 'getContext', 'git', 'input', 'isUnix', 'library', 'libraryResource', 'load', 'mail',
        'milestone', 'node', 'powershell', 'publishHTML', 'pwd', 'pwsh', 'readJSON', 'readYaml', 'script', 'stage', 'step',
        'tool', 'unarchive', 'waitUntil', 'withContext', 'wrap', 'writeJSON', 'writeYaml', 'ws', 'cleanWs'] as Set)
    /** Two letters that changed places count as two changes. Short names are near to too much, and a library's myEcho is meant. */
    private static final int NEAR = 2
    private static final int SHORT = 5

    private final Checker checker

    NameChecker(Checker checker) { this.checker = checker }

    /** Report a step that is none of the known ones, but nearly. */
    void step(MethodCallExpression call) {
        String name = Syntax.name(call)
        if (name == null || name in STEPS || name.length() < SHORT) { return }
        String nearest = STEPS.min { String one -> Distance.of(one, name) }
        if (Distance.of(nearest, name) <= NEAR && Math.abs(nearest.length() - name.length()) < NEAR) {
            checker.report(call, "there is no step '${name}'", "did you mean '${nearest}'?")
        }
    }

    /** Report every params.X of a pipeline whose own block `parameters` does not declare X. */
    void parameters(MethodCallExpression pipeline) {
        Set<String> declared = null
        List<PropertyExpression> used = []
        pipeline.arguments.visit(new CodeVisitorSupport() {
            @Override
            void visitMethodCallExpression(MethodCallExpression call) {
                if (Syntax.name(call) == 'parameters' && call.implicitThis && Syntax.block(call)) {
                    declared = (declared ?: new HashSet<String>()) + declaredIn(call)
                }
                super.visitMethodCallExpression(call)
            }

            @Override
            void visitPropertyExpression(PropertyExpression property) {
                if (property.objectExpression instanceof VariableExpression && property.objectExpression.text == 'params') {
                    used << property
                }
                super.visitPropertyExpression(property)
            }
        })
        if (declared == null) { return }
        used.findAll { PropertyExpression one -> !(one.propertyAsString in declared) }.each { PropertyExpression one ->
            checker.unknown(one, "'${one.propertyAsString}' is no parameter of this pipeline", declared ?: ['none'])
        }
    }

    private static Set<String> declaredIn(MethodCallExpression parameters) {
        Set<String> names = new HashSet<String>()
        Syntax.statements(Syntax.block(parameters)).each { statement ->
            MethodCallExpression one = Syntax.call(statement)
            MapEntryExpression name = one == null ? null : Syntax.named(one).find { MapEntryExpression entry -> Syntax.key(entry) == 'name' }
            if (name != null) { names << String.valueOf(Syntax.constant(name.valueExpression)) }
        }
        names
    }
}
