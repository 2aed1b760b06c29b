// Text for a cost: its name, its value with a unit, and its uncertainty.
#pragma once

#include <string>

#include "engine/profile/profile.h"

namespace tandem {

std::string label_of(const CostField& field);  // the field's words without the unit
// "54.3 GB/s", "123 us": the unit is the one at the end of the field's words.
std::string cost_text(const CostField& field, double value);
// "+-1.2 %", "+-40 % ?" if uncertain; empty: it was not judged.
std::string spread_text(const FigureSpread* figure);
// One line per uncertain figure with the reason, and the processes that were busy; empty: none.
std::string uncertain_text(const Profile& profile);

}  // namespace tandem
