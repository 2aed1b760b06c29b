// The last stage of `tandem profile`: first tokens of cold adapters as an engine gives them, to
// hold against what the profile predicts.
#pragma once

#include "base/status.h"
#include "engine/profile/profile.h"
#include "tools/cli/settings.h"
#include "tools/profile/profile_measure.h"

namespace tandem {

// Of a profile whose costs are there: adds the table "first_token" (first_tokens.h). An engine with
// dummy weights plans with these costs and serves one cold adapter after another, each once more
// when it is resident, with all of the target's workers and with half of them; medians. On a slow
// device with all alone, and for some seconds at most. An error says why nothing was measured, and
// that the profile is good without: not_found: there are no workers.
Status measure_first_tokens(const EngineSettings& engine, const ProfileTarget& target,
                            Profile& profile);

}  // namespace tandem
