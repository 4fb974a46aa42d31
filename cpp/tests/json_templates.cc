#include "json_templates.h"

AOT_TEST_TEMPLATES()
