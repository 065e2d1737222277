#include "base/fault.h"

long fault_countdown[FAULT_KIND_COUNT];
