"""Small files in the formats that datasets are published in."""

from __future__ import annotations

JODIE = (
    "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    "0,0,0.0,0,0.5,-1.0,2.0\n"
    "1,1,36.0,0,0.25,1.0,0.0\n"
    "1,1,77.0,0,0.0,0.0,0.0\n"
    "2,0,131.0,0,1.5,0.0,-2.5\n"
    "1,0,150.0,1,0.0,3.0,1.0\n"
)
SNAP = "1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n1 2 1082414391\n"
RATINGS = "6,2,4,1289241911.72836\n6,5,2,1289241941.53378\n1,15,-1,1289243140.39049\n"
ENRON = ",u,i,ts,label,idx\n0,115,170,0.0,0.0,1\n1,115,124,529920.0,0.0,2\n2,170,115,529920.0,0.0,3\n"
