package jenkinsfile

import groovy.transform.CompileStatic

/** A machine that the test declares: its labels, and a folder put first on PATH there. */
@CompileStatic
class Node {
    final String name
    final Set<String> labels
    final String path

    Node(int number, String labels, String path) {
        List<String> words = labels.tokenize()
        if (!words) { throw new UsageError('--label: a node needs at least one label') }
        this.name = "${words[0]}-${number}"
        this.labels = new LinkedHashSet<String>(words)
        this.path = path
    }
}

/** The nodes of a run, found by label expressions with &&, ||, ! and parentheses. */
@CompileStatic
class Nodes {
    final List<Node> all

    Nodes(List<Node> all) { this.all = all }

    /** Return the first node that has the labels. Raises StepFailure, where Jenkins would wait for ever. */
    Node find(String expression) {
        String wanted = expression?.trim()
        Node found = all.find { Node node -> !wanted || new LabelExpression(wanted).matches(node.labels) }
        if (found == null) {
            throw new StepFailure("There are no nodes with the label '${wanted}'; there are: ${all*.labels*.join(' ')}")
        }
        found
    }
}

/** A label expression, evaluated while it is read: or-terms of and-terms of names. */
@CompileStatic
class LabelExpression {
    private final String text
    private List<String> tokens
    private Set<String> labels

    LabelExpression(String text) { this.text = text }

    boolean matches(Set<String> labels) {
        this.tokens = (text =~ /&&|\|\||[()!]|[^\s&|()!]+/).collect { Object token -> token.toString() }
        this.labels = labels
        boolean value = either()
        if (tokens) { throw new StepFailure("'${text}' is no label expression") }
        value
    }

    private boolean either() {
        boolean value = both()
        while (take('||')) { boolean other = both(); value = value || other }
        value
    }

    private boolean both() {
        boolean value = single()
        while (take('&&')) { boolean other = single(); value = value && other }
        value
    }

    private boolean single() {
        if (take('!')) { return !single() }
        if (take('(')) {
            boolean value = either()
            if (!take(')')) { throw new StepFailure("'${text}' is no label expression: a ')' is missing") }
            return value
        }
        if (!tokens || tokens[0] in ['&&', '||', ')']) { throw new StepFailure("'${text}' is no label expression") }
        tokens.remove(0) in labels
    }

    private boolean take(String token) {
        if (tokens && tokens[0] == token) { tokens.remove(0); return true }
        false
    }
}
