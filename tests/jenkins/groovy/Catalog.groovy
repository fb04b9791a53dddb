package jenkinsfile

import groovy.transform.CompileStatic

/** The names that declarative pipelines know, and what they take. Plugins can add more steps, never more sections. */
@CompileStatic
class Catalog {
    /** In the order in which Jenkins runs them. */
    static final List<String> POST = ['always', 'changed', 'fixed', 'regression', 'aborted', 'success', 'unsuccessful',
                                      'unstable', 'failure', 'notBuilt', 'cleanup'].asImmutable()

    static final Set<String> PIPELINE = ['agent', 'environment', 'libraries', 'options', 'parameters', 'post', 'stages',
                                         'tools', 'triggers'] as Set

    static final Set<String> STAGE = ['agent', 'environment', 'failFast', 'input', 'matrix', 'options', 'parallel',
                                      'post', 'stages', 'steps', 'tools', 'when'] as Set

    static final Set<String> MATRIX = ['agent', 'axes', 'environment', 'excludes', 'input', 'options', 'post', 'stages',
                                       'tools', 'when'] as Set

    static final List<String> BODIES = ['matrix', 'parallel', 'stages', 'steps'].asImmutable()

    /** Sections that Jenkins has renamed. */
    static final Map<String, String> RENAMED = [jobProperties: 'options', notifications: 'post', postBuild: 'post',
                                                properties: 'options', wrappers: 'options']

    /** Agent types and the settings of each. */
    static final Map<String, Set<String>> AGENTS = [
        label: ['customWorkspace', 'label', 'retries'] as Set, node: ['customWorkspace', 'label', 'retries'] as Set,
        docker: ['alwaysPull', 'args', 'customWorkspace', 'image', 'label', 'registryCredentialsId', 'registryUrl',
                 'reuseNode'] as Set,
        dockerfile: ['additionalBuildArgs', 'args', 'customWorkspace', 'dir', 'filename', 'label',
                     'registryCredentialsId', 'registryUrl', 'reuseNode'] as Set,
        kubernetes: ['activeDeadlineSeconds', 'agentContainer', 'agentInjection', 'cloud', 'containerTemplate',
                     'containerTemplates', 'customWorkspace', 'defaultContainer', 'hostNetwork', 'idleMinutes',
                     'imagePullSecrets', 'inheritFrom', 'instanceCap', 'label', 'namespace', 'nodeSelector',
                     'podRetention', 'retries', 'runAsGroup', 'runAsUser', 'schedulerName', 'serviceAccount',
                     'showRawYaml', 'slaveConnectTimeout', 'supplementalGroups', 'volumes', 'workingDir',
                     'workspaceVolume', 'yaml', 'yamlFile', 'yamlMergeStrategy'] as Set,
    ]

    /** Options that run around a body; a stage may have them too. */
    static final Set<String> WRAPPERS = ['ansiColor', 'catchError', 'lock', 'retry', 'throttle', 'timeout', 'timestamps',
                                         'warnError', 'withCredentials', 'withEnv'] as Set

    static final Set<String> STAGE_OPTIONS = WRAPPERS + (['skipDefaultCheckout'] as Set)

    static final Set<String> OPTIONS = STAGE_OPTIONS + (['authorizationMatrix', 'buildDiscarder',
        'checkoutToSubdirectory', 'copyArtifactPermission', 'disableConcurrentBuilds', 'disableRestartFromStage',
        'disableResume', 'durabilityHint', 'githubProjectProperty', 'gitLabConnection', 'newContainerPerStage',
        'office365ConnectorWebhooks', 'overrideIndexTriggers', 'parallelsAlwaysFailFast', 'preserveStashes',
        'quietPeriod', 'rateLimitBuilds', 'skipStagesAfterUnstable', 'throttleJobProperty', 'throttleConcurrentBuilds',
        'datadog', 'jiraSite', 'sidebarLinks'] as Set)

    /** Parameter types and what each takes. */
    static final Map<String, Set<String>> PARAMETERS = [
        booleanParam: ['defaultValue', 'description', 'name'] as Set,
        choice: ['choices', 'description', 'name'] as Set,
        credentials: ['credentialType', 'defaultValue', 'description', 'name', 'required'] as Set,
        file: ['description', 'name'] as Set,
        password: ['defaultValue', 'defaultValueAsSecret', 'description', 'name'] as Set,
        run: ['description', 'filter', 'name', 'projectName'] as Set,
        string: ['defaultValue', 'description', 'name', 'trim'] as Set,
        text: ['defaultValue', 'description', 'name', 'trim'] as Set,
    ]

    /** Triggers and what each takes. */
    static final Map<String, Set<String>> TRIGGERS = [
        cron: ['spec'] as Set, pollSCM: ['ignorePostCommitHooks', 'scmpoll_spec', 'spec'] as Set,
        upstream: ['threshold', 'upstreamProjects'] as Set, githubPush: [] as Set,
    ]

    static final Set<String> WHEN_MOMENTS = ['beforeAgent', 'beforeInput', 'beforeOptions'] as Set

    static final Set<String> WHEN_GROUPS = ['allOf', 'anyOf', 'not'] as Set

    /** Conditions and what each takes by name; the first one may come without its name. */
    static final Map<String, Set<String>> WHEN = [
        allOf: [] as Set, anyOf: [] as Set, not: [] as Set,
        branch: ['pattern', 'comparator'] as Set, buildingTag: [] as Set, changelog: ['pattern'] as Set,
        changeRequest: ['author', 'authorDisplayName', 'authorEmail', 'branch', 'comparator', 'fork', 'id', 'target',
                        'title', 'url'] as Set,
        changeset: ['pattern', 'glob', 'caseSensitive', 'comparator'] as Set,
        environment: ['name', 'value', 'ignoreCase'] as Set, equals: ['expected', 'actual'] as Set,
        expression: [] as Set, isRestartedRun: [] as Set, tag: ['pattern', 'comparator'] as Set,
        triggeredBy: ['cause', 'detail'] as Set,
    ]

    static final Map<String, Set<String>> WHEN_REQUIRED = [
        environment: ['name', 'value'] as Set, equals: ['expected', 'actual'] as Set]

    static final Set<String> INPUT = ['id', 'message', 'ok', 'parameters', 'submitter', 'submitterParameter'] as Set

    static final Set<String> TOOLS = ['ant', 'git', 'go', 'gradle', 'groovy', 'jdk', 'jgit', 'maven', 'nodejs',
                                      'python', 'sbt', 'scala', 'terraform', 'dockerTool'] as Set
}
