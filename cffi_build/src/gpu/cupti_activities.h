/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kinds of activities CUPTI records: all that say what devices do, and about whom.
 */
#ifndef PLN_CUPTI_ACTIVITIES_H
#define PLN_CUPTI_ACTIVITIES_H

/* What it refuses is said. */
void cupti_activities_begin(void);
void cupti_activities_end(void);

#endif
