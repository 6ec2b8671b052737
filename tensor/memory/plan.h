#pragma once

namespace tessera {

/// Whether a MetaAccountScope counts a plan in this thread. Operations may then mix operands on meta and real
/// ones, such as an input without values and a model that has them.
bool is_planning();

}  // namespace tessera
