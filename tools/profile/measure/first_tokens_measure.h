// The last stage of `tandem profile`: measures first tokens of cold adapters in an engine, for
// comparison with the profile's predictions.
#pragma once

#include "base/status.h"
#include "engine/profile/profile.h"
#include "tools/profile/measure/profile_measure.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Requires a profile with costs; adds the table "first_token" (first_tokens.h). An engine with
// dummy weights plans with these costs and serves one cold adapter after another, each once more
// when it is resident, with all of the target's workers and with half of them; medians. On a slow
// device it uses only all workers, and a few seconds at most. An error says why nothing was
// measured, and that the profile is valid without it; not_found: there are no workers.
Status measure_first_tokens(const EngineSettings& engine, const ProfileTarget& target,
                            Profile& profile);

}  // namespace tandem
