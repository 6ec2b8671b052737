#include "tessera/tessera.h"

const char* version_seen_elsewhere();
const char* version_seen_elsewhere() {
  return TESSERA_VERSION;
}
