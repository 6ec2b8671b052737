#include "tessera/tessera.h"

const char* version_in_other_source();
const char* version_in_other_source() {
  return TESSERA_VERSION;
}
