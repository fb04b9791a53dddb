package jenkinsfile

import org.codehaus.groovy.ast.expr.*
import org.codehaus.groovy.control.MultipleCompilationErrorsException

/** The static check of one Jenkinsfile: the structure of its `pipeline` block, names and types. Nothing is run. */
class Checker {
    static final List<String> PIPELINE = ['agent', 'environment', 'options', 'parameters', 'stages', 'triggers']
    static final List<String> BODIES = ['matrix', 'stages', 'steps']
    static final List<String> STAGE = ['agent', 'environment', 'input', 'options', 'post', 'when'] + BODIES
    static final List<String> POST = ['always', 'cleanup']
    static final String IDENTIFIER = /[a-zA-Z_][a-zA-Z0-9_]*/
    String file
    final List<Problem> problems = []
    final List<String> stages = []
    private final ArgumentChecker arguments = new ArgumentChecker(checker: this)

    static Checker of(File file) {
        Checker checker = new Checker(file: file.path)
        try {
            checker.module(Syntax.parse(file.getText('UTF-8')))
        } catch (MultipleCompilationErrorsException broken) {
            checker.problems.addAll(Problem.syntax(file.path, broken))
        }
        checker.problems.sort { it.line }
        checker
    }

    void report(Object at, String what, String right = '', String kind = 'structure') {
        problems << new Problem(file: file, line: Math.max(at.lineNumber, 1), what: what, right: right, kind: kind)
    }

    /** Report a name that does not belong there, with the nearest that does. */
    void unknown(Object at, String kind, String name, Collection<String> known, String where = '') {
        List<String> leftOut = Definitions.leftOut(kind)
        String nearest = (known + leftOut).min { Syntax.distance(it, name ?: '') }
        if (name in leftOut) {
            report(at, "the ${kind} '${name}'${where} is not run here", 'README.md says what is', 'not run here')
        } else {
            report(at, "'${name}' is not a known ${kind}${where}", "did you mean '${nearest}'? There are ${known.sort().join(', ')}")
        }
    }

    private void module(Object module) {
        List calls = module.statementBlock.statements.collect { Syntax.call(it) } - [null]
        List found = calls.findAll { Syntax.name(it) == 'pipeline' }
        if (!found) {
            String kind = module.methods.any { it.name == 'call' } ? 'not run here' : 'structure'
            report(calls ? calls[0] : module.statementBlock, 'there is no pipeline block at the top level',
                   'write pipeline { agent ...; stages { ... } } at the top level', kind)
            return
        }
        new Anywhere(to: this).check(module)
        found.tail().each { report(it, 'a second pipeline block', 'keep one') }
        List<String> sections = sections(block(found[0]), 'section', PIPELINE) { directive(it, false, false) }
        (['agent', 'stages'] - sections).each { report(found[0], "the required section '${it}' is missing", "add ${it} ...") }
    }

    /** Return the { } of a section. Without one, report that. */
    private ClosureExpression block(MethodCallExpression call) {
        ClosureExpression found = Syntax.block(call)
        if (!found) { report(call, "'${Syntax.name(call)}' has no block", "write ${Syntax.name(call)} { ... }") }
        found
    }

    /** Return the calls in a block; report whatever else stands there. */
    private List<MethodCallExpression> calls(ClosureExpression block, String right) {
        Syntax.statements(block).collect { statement ->
            MethodCallExpression call = Syntax.call(statement)
            if (call && call.implicitThis && Syntax.name(call)) { return call }
            boolean chained = call && call.objectExpression instanceof MethodCallExpression
            report(statement, chained ? "'${Syntax.name(call)}' follows another definition on its line" :
                   'this is not a definition', chained ? 'put each on a line of its own' : right)
            null
        } - [null]
    }

    /** Check a block in which each known name may stand once; return the names that do. */
    private List<String> sections(ClosureExpression block, String kind, Collection<String> known, Closure check) {
        List<String> seen = []
        calls(block, "there are ${known.join(', ')}; steps belong into steps { ... }").each { one ->
            String name = Syntax.name(one)
            if (name in seen) {
                report(one, "'${name}' appears twice", 'keep one of them')
            } else if (!(name in known)) {
                unknown(one, kind, name, known)
            } else {
                check(one)
            }
            seen << name
        }
        if (block && !Syntax.statements(block)) { report(block, 'this block is empty', "there are ${known.join(', ')}") }
        seen
    }

    private void directive(MethodCallExpression section, boolean inStage, boolean forked) {
        String name = Syntax.name(section)
        switch (name) {
            case 'agent': agent(section); break
            case 'environment': new Variables(checker: this).check(block(section)); break
            case 'post': sections(block(section), 'post condition', POST) { steps(it) }; break
            case 'when': when(section); break
            case 'stages': stageList(section, forked); break
            case 'steps': steps(section); break
            case 'matrix':
                if (forked) { report(section, "'matrix' is inside another matrix", 'use stages { ... } there') }
                matrix(section)
                break
            case 'parameters': defined(section, 'parameter', Definitions.of(name).keySet(), false); break
            case 'input':
                List<String> fields = defined(section, 'input field', Definitions.of(name).keySet())
                if (!('message' in fields)) { report(section, 'an input has no message', "add message '...'") }
                break
            default:
                Collection<String> all = Definitions.of(name).keySet()
                defined(section, name[0..-2], inStage && name == 'options' ? Definitions.all['stage options'] : all)
        }
    }

    /** Check a list of definitions: options, parameters, triggers, the fields of an input. */
    private List<String> defined(MethodCallExpression section, String kind, Collection<String> known, boolean once = true) {
        Map<String, Map> all = Definitions.of(Syntax.name(section))
        Closure check = { MethodCallExpression one ->
            arguments.check(one, all[Syntax.name(one)], kind)
            if (Syntax.name(one) == 'cron') { schedule(one) }
        }
        if (once) { return sections(block(section), kind, known, check) }
        calls(block(section), 'write name(...)').each { Syntax.name(it) in known ? check(it) : unknown(it, kind, Syntax.name(it), known) }
        if (Syntax.block(section) && !Syntax.statements(Syntax.block(section))) { report(section, "'${Syntax.name(section)}' is empty") }
    }

    private void schedule(MethodCallExpression trigger) {
        Object given = Syntax.plain(trigger) ? Syntax.constant(Syntax.plain(trigger)[0]) : null
        (given instanceof String ? given.readLines()*.trim() : []).each { String line ->
            if (line && !(line ==~ /(#|TZ=|@).*/) && line.tokenize().size() != 5) {
                report(trigger, "'${line}' has ${line.tokenize().size()} fields", "cron takes 5, e.g. 'H 3 * * *'")
            }
        }
    }

    private void agent(MethodCallExpression section) {
        List plain = Syntax.plain(section)
        if (plain.size() == 1 && plain[0] instanceof VariableExpression && plain[0].text in ['any', 'none']) { return }
        if (!Syntax.block(section)) {
            report(section, "this is not an agent", "write agent any, agent none or agent { label '...' }")
            return
        }
        sections(Syntax.block(section), 'agent', ['label']) { one ->
            if (Syntax.block(one)) { report(one, 'a label with settings is not run here', '', 'not run here') }
            if (Syntax.arguments(one).size() != 1) { report(one, 'a label is one string', "write label '...'") }
        }
    }

    private void when(MethodCallExpression section) {
        List<MethodCallExpression> found = calls(block(section), 'put it into expression { ... }')
        List moments = found.findAll { Syntax.name(it) == 'beforeAgent' }
        moments.findAll { !(Syntax.constant(Syntax.arguments(it)[0]) instanceof Boolean) || Syntax.arguments(it).size() != 1 }
            .each { report(it, "'beforeAgent' is neither true nor false", 'write beforeAgent true') }
        if (found == moments) { report(section, "'when' has no condition", "add branch 'main' or another, or remove it") }
        (found - moments).each { condition(it) }
    }

    private void condition(MethodCallExpression call) {
        String name = Syntax.name(call)
        if (name in ['not', 'anyOf']) {
            List inside = calls(block(call), 'put it into expression { ... }')
            if (Syntax.arguments(call).size() != 1) { report(call, "'${name}' takes nothing but its block", "write ${name} { ... }") }
            if (!inside || (name == 'not' && inside.size() > 1)) {
                report(call, "'${name}' has ${inside.size()} conditions", name == 'not' ? 'it needs one' : 'it needs at least one')
            }
            inside.each { condition(it) }
        } else if (name == 'expression') {
            block(call)
        } else if (Definitions.of('when').containsKey(name)) {
            arguments.check(call, Definitions.of('when')[name], 'condition')
        } else {
            unknown(call, 'condition', name, Definitions.of('when').keySet() + ['not', 'anyOf', 'expression'])
        }
    }

    /** forked: already inside of a matrix, where none may come again. */
    private void stageList(MethodCallExpression section, boolean forked) {
        List<String> names = []
        List found = calls(block(section), "only stage('...') { ... } may stand there")
        if (!found) { report(section, "'${Syntax.name(section)}' has no stage", "add stage('...') { ... }") }
        found.each { one ->
            if (Syntax.name(one) != 'stage') {
                report(one, "'${Syntax.name(one)}' is not a stage", "write stage('...') { ... }")
                return
            }
            Object name = Syntax.plain(one) ? Syntax.constant(Syntax.plain(one)[0]) : null
            if (!(name instanceof String)) { report(one, 'the name of a stage is not a plain string', "write stage('...')") }
            if (name in names) { report(one, "two stages are named '${name}'", 'give each a name of its own') }
            names << name
            stages << name
            stage(one, name, forked)
        }
    }

    private void stage(MethodCallExpression call, Object name, boolean forked) {
        if (!block(call)) { return }
        List<String> sections = sections(Syntax.block(call), 'section', STAGE) { directive(it, true, forked) }
        List<String> bodies = sections.intersect(BODIES)
        if ('parallel' in sections) { return } // reported already
        if (bodies.size() != 1) {
            report(call, "stage '${name}' has ${bodies.join(' and ') ?: 'nothing to do'}", "it needs one of ${BODIES.join(', ')}")
        } else if (bodies == ['matrix'] && 'agent' in sections) {
            report(call, "'agent' is not allowed in stage '${name}', which has a matrix", 'put it into the stages inside')
        } else if (bodies == ['matrix'] && 'post' in sections) {
            report(call, "'post' beside a matrix is not run here", '', 'not run here')
        }
    }

    private void matrix(MethodCallExpression section) {
        List<String> found = sections(block(section), 'matrix section', ['axes', 'stages']) { one ->
            Syntax.name(one) == 'stages' ? stageList(one, true) : axes(one)
        }
        (['axes', 'stages'] - found).each { report(section, "the matrix has no '${it}'", "add ${it} { ... }") }
    }

    private void axes(MethodCallExpression section) {
        Set<String> names = []
        List found = calls(block(section), 'only axis { ... } may stand there')
        if (!found) { report(section, "'axes' has no axis", 'add axis { name ...; values ... }') }
        found.each { one ->
            if (Syntax.name(one) != 'axis') { report(one, "'${Syntax.name(one)}' is not an axis", 'write axis { ... }'); return }
            List<String> fields = sections(block(one), 'axis field', ['name', 'values']) { field ->
                List values = Syntax.plain(field).collect { Syntax.constant(it) }
                if (!values || null in values) { report(field, "'${Syntax.name(field)}' is not constant", 'write it out') }
                if (values.unique(false) != values) { report(field, 'a value appears twice', 'keep one of them') }
                if (Syntax.name(field) == 'name' && !(values[0] ==~ IDENTIFIER && names.add(values[0]))) {
                    report(field, "'${values[0]}' cannot name this axis", 'use letters, digits and underscores, once')
                }
            }
            (['name', 'values'] - fields).each { report(one, "an axis has no ${it}", "add ${it} '...'") }
        }
    }

    private void steps(MethodCallExpression section) {
        List statements = Syntax.statements(block(section))
        if (!statements) { report(section, "'${Syntax.name(section)}' has no step", "add a step such as sh '...'") }
        statements.each { step(it) }
    }

    private void step(Object statement) {
        MethodCallExpression call = Syntax.call(statement)
        Map<String, Map> known = Definitions.of('steps')
        String name = call ? Syntax.name(call) : null
        if (!call || !call.implicitThis) {
            report(statement, 'this is not a step', 'put Groovy code into script { ... }')
        } else if (name in ['stage', 'pipeline', 'properties']) {
            report(call, "'${name}' is not allowed among steps", 'it has a place of its own')
        } else if (name == 'script') {
            block(call)
        } else if (known.containsKey(name)) {
            arguments.check(call, known[name], 'step')
            Syntax.statements(Syntax.block(call)).each { step(it) }
        } else {
            Collection<String> all = known.keySet() + Definitions.leftOut('step')
            boolean misspelled = !(name in all) && all.any { Math.abs(it.length() - name.length()) < 2 && Syntax.distance(it, name) < 30 }
            misspelled ? unknown(call, 'step', name, known.keySet()) :
                report(call, "the step '${name}' is not run here", 'definitions.json has those that are', 'not run here')
        }
    }
}
