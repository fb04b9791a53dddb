package jenkinsfile

import javax.xml.parsers.DocumentBuilder
import javax.xml.parsers.DocumentBuilderFactory
import org.w3c.dom.Element
import org.w3c.dom.NodeList
import org.xml.sax.SAXException

/** The step `junit`. */
class ReportSteps {
    private final Build build

    ReportSteps(Build build) { this.build = build }

    Map junit(CharSequence pattern) { junit([testResults: pattern]) }

    Map junit(Map given) {
        File folder = build.context.directory
        if (!folder) { throw new StepFailure('Required context class hudson.FilePath is missing: junit needs an agent') }
        List<String> found = Glob.files(folder, given.testResults as String, null, false)
        if (!found && !given.allowEmptyResults) {
            throw new StepFailure('No test report files were found. Configuration error?')
        }
        Map<String, Integer> counts = [total: 0, failed: 0, skipped: 0]
        found.each { path -> count(new File(folder, path), counts) }
        if (found && !counts.total && !given.allowEmptyResults) {
            throw new StepFailure('None of the test reports contained any result')
        }
        build.event([files: found] + counts, 'junit')
        build.say("Tests: ${counts.total}, failed: ${counts.failed}, skipped: ${counts.skipped}")
        if (counts.failed && !given.skipMarkingBuildUnstable) { build.worsen('UNSTABLE') }
        [totalCount: counts.total, failCount: counts.failed, skipCount: counts.skipped,
         passCount: counts.total - counts.failed - counts.skipped]
    }

    private static void count(File file, Map<String, Integer> counts) {
        NodeList cases = parse(file).getElementsByTagName('testcase')
        (0..<cases.length).each { at ->
            Element one = (Element) cases.item(at)
            counts.total += 1
            if (has(one, 'failure') || has(one, 'error')) {
                counts.failed += 1
            } else if (has(one, 'skipped')) {
                counts.skipped += 1
            }
        }
    }

    private static boolean has(Element element, String name) { element.getElementsByTagName(name).length > 0 }

    private static Element parse(File file) {
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance()
        factory.setFeature('http://apache.org/xml/features/nonvalidating/load-external-dtd', false)
        DocumentBuilder reader = factory.newDocumentBuilder()
        reader.errorHandler = null
        try {
            return reader.parse(file).documentElement
        } catch (SAXException broken) {
            throw new StepFailure("Failed to read test report file ${file}: ${broken.message}")
        }
    }
}
