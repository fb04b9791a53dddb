package jenkinsfile

import groovy.transform.CompileStatic

/** The lockable resources of a run, granted strictly in the order of the requests. */
@CompileStatic
class Locks {
    private final Map<String, List<String>> byLabel
    private final Set<String> held = new HashSet<String>()
    private final List<LockRequest> queue = []

    /** sizes: how many resources have a label; a label that is not named has one. */
    Locks(Map<String, Integer> sizes) {
        byLabel = sizes.collectEntries { String label, Integer size ->
            [label, (1..size).collect { Integer number -> "${label}-${number}".toString() }]
        } as Map<String, List<String>>
    }

    /** Wait for resources and return their names. Raises StepFailure for what can never be granted. */
    List<String> take(LockRequest request, Context context) {
        List<String> candidates = candidatesOf(request)
        int wanted = request.quantity ?: candidates.size()
        if (wanted > candidates.size()) {
            throw new StepFailure("lock: ${wanted} resources wanted, '${request.label}' has ${candidates.size()}")
        }
        if (candidates.count { String name -> !(name in context.resources) } < wanted) {
            throw new StepFailure("lock: '${candidates.join(', ')}' is held around this block: it would wait for ever")
        }
        synchronized (this) { queue << request }
        try {
            while (true) {
                List<String> granted = tryToTake(request, candidates, wanted)
                if (granted) { return granted }
                if (request.skipIfLocked) { return [] }
                context.checkStopped()
                synchronized (this) { wait(20) }
            }
        } finally {
            synchronized (this) { queue.remove(request); notifyAll() }
        }
    }

    synchronized void release(List<String> names) {
        held.removeAll(names)
        notifyAll()
    }

    private synchronized List<String> candidatesOf(LockRequest request) {
        if (request.resource) { return [request.resource] }
        if (!byLabel.containsKey(request.label)) { byLabel[request.label] = ["${request.label}-1".toString()] }
        byLabel[request.label]
    }

    private synchronized List<String> tryToTake(LockRequest request, List<String> candidates, int wanted) {
        for (LockRequest earlier : queue) {
            if (earlier.is(request)) { break }
            if (candidatesOf(earlier).any { String name -> name in candidates }) { return [] }
        }
        List<String> free = candidates.findAll { String name -> !(name in held) }
        if (free.size() < wanted) { return [] }
        List<String> granted = free.take(wanted)
        held.addAll(granted)
        granted
    }
}

/** What one `lock` asks for: a resource by name, or `quantity` (0: all) of those with a label. */
@CompileStatic
class LockRequest {
    String resource
    String label
    int quantity
    boolean skipIfLocked
}
