#!/bin/sh
# Stands in for `make lint` and `make test` of the parent; every other target is made, with the Python that is here.
for word in "$@"; do
    case $word in
        lint) exit 0 ;;
        test)
            mkdir -p build/test-results
            echo '<testsuite><testcase name="template"/></testsuite>' >build/test-results/tests.xml
            if [ -e "$STANDIN_ENGINE/tests-fail" ]; then echo "1 failed"; exit 1; fi
            exit 0
            ;;
    esac
done
mkdir -p build
touch build/ready # newer than the locks: there is no environment to set up
exec "$STANDIN_MAKE" "$@" PYTHON="$STANDIN_PYTHON" READY=build/ready
