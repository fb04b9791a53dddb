package jenkinsfile

import groovy.transform.CompileStatic
import org.codehaus.groovy.ast.CodeVisitorSupport
import org.codehaus.groovy.ast.ModuleNode
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.ConstantExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.MapEntryExpression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.stmt.Statement

/** Checks the steps of a stage or of a post condition. Steps of plugins pass: what they take is not known here. */
@CompileStatic
class StepChecker {
    /** What may not stand among steps, and what would be right. */
    static final Map<String, String> BLOCKED = [
        stage: 'use stages { ... } instead of steps, or a script { ... }', properties: 'use options, parameters and triggers',
        pipeline: 'put pipeline { ... } at the top level']
    private final Checker checker

    StepChecker(Checker checker) { this.checker = checker }

    /** section: `steps`, or a condition such as `always`. */
    void section(MethodCallExpression section) {
        ClosureExpression body = checker.block(section)
        if (!body) { return }
        List<Statement> statements = Syntax.statements(body)
        if (!statements) { checker.report(section, "'${Syntax.name(section)}' has no step", "add a step such as sh '...'") }
        statements.each { Statement one -> step(one, statements.size() == 1 && Syntax.name(section) == 'steps') }
    }

    private void steps(ClosureExpression body) { Syntax.statements(body).each { Statement one -> step(one, false) } }

    private void step(Statement statement, boolean alone) {
        MethodCallExpression call = Syntax.call(statement)
        if (call == null) {
            checker.report(statement, 'this is no step', 'put Groovy code into script { ... }')
            return
        }
        String name = Syntax.name(call)
        if (!call.implicitThis) {
            checker.report(call, "'${call.objectExpression.text}.${name}' is a method, not a step",
                           'put Groovy code into script { ... }')
        } else if (BLOCKED.containsKey(name)) {
            checker.report(call, "'${name}' is not allowed among steps", BLOCKED[name])
        } else if (name == 'parallel') {
            parallel(call, alone)
        } else if (name != 'script') {
            new NameChecker(checker).step(call)
            arguments(call)
            if (Syntax.block(call)) { steps(Syntax.block(call)) }
        } else {
            checker.block(call)
        }
    }

    private void parallel(MethodCallExpression call, boolean alone) {
        if (!alone) {
            checker.report(call, "'parallel' is not the only step", 'use a stage with parallel { stage(...) } of its own')
            return
        }
        List<MapEntryExpression> named = Syntax.named(call)
        if (!Syntax.arguments(call)) { checker.report(call, "'parallel' has no branch", "add name: { ... }") }
        named.each { MapEntryExpression one ->
            if (one.valueExpression instanceof ClosureExpression) {
                steps((ClosureExpression) one.valueExpression)
            } else if (Syntax.key(one) != 'failFast') {
                checker.report(one, "'${Syntax.key(one)}' in parallel is no branch", 'write name: { ... } or failFast: true')
            } else if (!Syntax.isConstant(one.valueExpression, Boolean)) {
                checker.report(one, "'failFast' is neither true nor false", 'write failFast: true')
            }
        }
    }

    /** Check the arguments of a step whose signature is known for certain. */
    void arguments(MethodCallExpression call) {
        String name = Syntax.name(call)
        List<MapEntryExpression> named = Syntax.named(call)
        Set<String> seen = new HashSet<String>()
        named.each { MapEntryExpression one ->
            if (Syntax.key(one) && !seen.add(Syntax.key(one))) {
                checker.report(one, "'${Syntax.key(one)}' is given twice to ${name}", 'keep one of them')
            }
        }
        StepSignature signature = StepSignatures.ALL[name]
        if (!signature) { return }
        named.each { MapEntryExpression one ->
            if (Syntax.key(one) && !signature.types.containsKey(Syntax.key(one))) {
                checker.unknown(one, "'${Syntax.key(one)}' is no parameter of the step ${name}", signature.types.keySet())
            } else if (Syntax.key(one)) {
                type(one.valueExpression, Syntax.key(one), signature.types[Syntax.key(one)], name)
            }
        }
        List<Expression> plain = Syntax.plain(call)
        if (plain.size() > 1 || (plain && named)) {
            checker.report(call, "${name} has more than one value without a name", "name them: ${signature.types.keySet().join(', ')}")
        } else if (plain && signature.required) {
            type(plain[0], signature.required, signature.types[signature.required], name)
        } else if (signature.required && !plain && !named.any { MapEntryExpression one -> Syntax.key(one) == signature.required }) {
            checker.report(call, "the required parameter '${signature.required}' of ${name} is missing",
                           "write ${name}(${signature.required}: ...)")
        }
    }

    private void type(Expression given, String key, Class kind, String step) {
        Object value = Syntax.constant(given)
        if (value == null || kind == Object || kind.isInstance(value)) { return }
        if (kind == Number && value instanceof String && (value as String).isNumber()) { return }
        checker.report(given, "'${key}' of ${step} is '${value}'",
                       "it must be ${kind == Number ? 'a number' : kind == Boolean ? 'true or false' : 'a string'}")
    }
}

/** What a step takes: parameters by type, and the one that must be there. */
@CompileStatic
class StepSignature {
    String required
    Map<String, Class> types
}

/** Steps of Jenkins' own pipeline plugins, whose parameters are known. */
@CompileStatic
class StepSignatures {
    static final Map<String, StepSignature> ALL = [
        archiveArtifacts: of('artifacts', [String: 'artifacts excludes', Boolean:
            'allowEmptyArchive caseSensitive defaultExcludes fingerprint followSymlinks onlyIfSuccessful']),
        catchError: of(null, [String: 'buildResult message stageResult', Boolean: 'catchInterruptions']),
        deleteDir: of(null, [:]),
        dir: of('path', [String: 'path']),
        error: of('message', [String: 'message']),
        fileExists: of('file', [String: 'file']),
        junit: of('testResults', [String: 'checksName stdioRetention testResults', Number: 'healthScaleFactor', Boolean:
            'allowEmptyResults keepLongStdio keepProperties keepTestNames skipMarkingBuildUnstable skipOldReports ' +
            'skipPublishingChecks', Object: 'testDataPublishers']),
        readFile: of('file', [String: 'encoding file']),
        retry: of('count', [Number: 'count', Object: 'conditions']),
        sh: of('script', [String: 'encoding label script', Boolean: 'returnStatus returnStdout']),
        sleep: of('time', [Number: 'time', String: 'unit']),
        stash: of('name', [String: 'excludes includes name', Boolean: 'allowEmpty useDefaultExcludes']),
        timeout: of('time', [Number: 'time', String: 'unit', Boolean: 'activity']),
        unstable: of('message', [String: 'message']),
        unstash: of('name', [String: 'name']),
        warnError: of('message', [String: 'message', Boolean: 'catchInterruptions']),
        withEnv: of('overrides', [Object: 'overrides']),
        writeFile: of('file', [String: 'encoding file text']),
    ]

    private static StepSignature of(String required, Map<String, String> names) {
        Map<String, Class> kinds = [String: String, Boolean: Boolean, Number: Number, Object: Object] as Map<String, Class>
        Map<String, Class> types = [:]
        names.each { String kind, String list -> list.tokenize().each { String one -> types[one] = kinds[kind] } }
        new StepSignature(required: required, types: types)
    }
}

/** Finds constants that no Jenkinsfile can have, wherever they are. */
@CompileStatic
class ConstantChecker {
    private final Checker checker

    ConstantChecker(Checker checker) { this.checker = checker }

    void visit(ModuleNode module) {
        Checker checker = this.checker
        module.statementBlock.visit(new CodeVisitorSupport() {
            @Override
            void visitConstantExpression(ConstantExpression constant) {
                if (constant.value instanceof BigInteger) {
                    checker.report(constant, "${constant.value} is too big for an integer", 'use at most 9223372036854775807')
                }
            }

            @Override
            void visitMethodCallExpression(MethodCallExpression call) {
                if (Syntax.isBareDollar(call)) {
                    checker.report(call, '${...} is used without quotes', 'write "${...}"')
                }
                super.visitMethodCallExpression(call)
            }
        })
    }
}
